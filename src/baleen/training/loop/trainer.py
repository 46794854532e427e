"""The training loop of every model: it handles parameters, batches and a loss, whatever they are.

    trainer = Trainer(module, batch, loss, TrainConfig(steps=1000), "runs/first", evaluate=dev_metric)
    outcome = trainer.run(resume=True)

A step depends only on seed, step number and weights: batches are functions of the step, and all random generators are
seeded at each.  So a run that is killed and resumed ends like an undisturbed one; bit for bit on a CPU with as many
threads.  Under torchrun each process takes its share of every batch, and the first one writes.

    log.jsonl, curves.png, tensorboard/     see logs.py
    step-000500/                            see saves.py
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from baleen.core.config import to_mapping
from baleen.core.errors import ConfigError, TrainingError
from baleen.core.progress import Bar, progress
from baleen.models.device import best_dtype, disable_cudnn_attention
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.distributed import average_gradients, local_device, process_group
from baleen.training.loop.logs import Cost, Load, Meter, Speed, StepReport, TrainLog, WorkDone, mean_values, peak_flops
from baleen.training.loop.optimizer import adamw, clip, load_optimizer_state, optimizer_state, override_dropout
from baleen.training.loop.prefetching import prefetch, prefetch_processes
from baleen.training.loop.sampling import Part
from baleen.training.loop.saves import Save, Saves, copy_weights, tensors_of

# Settings that may differ in a resumed run, because they do not change the weights.
_NOT_COMPARED = ("device", "save_every", "log_every")


class Batch(Protocol):
    """Input of a loss, with its amount of work."""

    @property
    def load(self) -> Load: ...

    def to(self, device: torch.device) -> Self: ...


AnyBatch = TypeVar("AnyBatch", bound=Batch)


@dataclass(frozen=True)
class Outcome:
    """The end of a run: its last `step`, the `loss` there, and the best dev metric with its step.

    The module has the weights of `best_step` if there is one, else those of `step`.  `seconds` is all time that passed,
    `speed` that of the training alone.
    """

    step: int
    loss: float
    seconds: float
    speed: Speed
    best_step: int | None = None
    metric: float | None = None

    def report(self) -> dict[str, Any]:
        """Values for the report of a stage."""
        speeds = {name: value if value is None else round(value, 4) for name, value in asdict(self.speed).items()}
        return {"steps": self.step, "loss": self.loss, "training_seconds": round(self.seconds, 2), **speeds}


@dataclass
class Counters:
    """Progress of a run, part of every save.  `stale` counts evaluations since the best one."""

    step: int = 0
    seconds: float = 0.0
    loss: float = math.nan
    best_step: int | None = None
    metric: float | None = None
    stale: int = 0
    totals: dict[str, float] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    work: dict[str, Any] = field(default_factory=dict)


class Trainer(Generic[AnyBatch]):
    """Trains `module` on `batch(step, part)` with `loss(batch)`, writing into `folder`.

    `batch` runs in a thread or in forked processes, with steps from 0; it must depend on its arguments alone and not use
    the global random generators.  `loss` returns a mean over the examples of a batch, or several named tensors: `loss` is
    minimised, all are logged.  `evaluate` returns the dev metric to maximise, or several numbers with that as `metric`;
    every process calls it, and the first one's number counts.  `about` is anything else that a resumed run must share
    with the interrupted one, such as hashes of data.
    """

    def __init__(
        self,
        module: nn.Module,
        batch: Callable[[int, Part], AnyBatch],
        loss: Callable[[AnyBatch], Tensor | Mapping[str, Tensor]],
        config: TrainConfig,
        folder: str | Path,
        *,
        evaluate: Callable[[], float | Mapping[str, float]] | None = None,
        about: Mapping[str, Any] | None = None,
        saves: Saves | None = None,
    ) -> None:
        _check_weights(module)
        self._module, self._batch, self._loss, self._evaluate = module, batch, loss, evaluate
        self._config, self._saves = config, saves or Saves(folder)
        settings = {name: value for name, value in to_mapping(config).items() if name not in _NOT_COMPARED}
        if config.dropout is None:
            del settings["dropout"]  # so that runs older than this setting can be resumed
        self._settings: dict[str, Any] = json.loads(json.dumps({**settings, **(about or {})}))
        self._device = local_device(config.device)
        choices = {"auto": best_dtype(self._device), "bfloat16": torch.bfloat16, "float32": torch.float32}
        self._dtype = choices[config.precision]
        self._counters = Counters()

    def run(self, *, resume: bool = False) -> Outcome:
        """Train to the end, from the last save with `resume`; without `resume`, a folder with a save is refused."""
        with process_group(self._device) as self._processes, self._training():
            self._start(resume)
            with TrainLog(self._saves.folder, self._counters.step, silent=not self._processes.first) as self._log:
                self._train()
                self._log.draw()
        counters = self._counters
        if counters.best_step is not None and counters.best_step != counters.step:
            self._saves.load_weights(counters.best_step, self._module)
        speed = self._meter.speed
        return Outcome(counters.step, counters.loss, counters.seconds, speed, counters.best_step, counters.metric)

    @contextmanager
    def _training(self) -> Iterator[None]:
        before, precision = self._module.training, torch.get_float32_matmul_precision()
        self._module.to(self._device).train()
        disable_cudnn_attention(self._device)
        if self._rounded and self._device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # enough for scores of bfloat16 vectors
        try:
            with override_dropout(self._module, self._config.dropout):
                yield
        finally:
            torch.set_float32_matmul_precision(precision)
            self._module.train(before)

    def _start(self, resume: bool) -> None:
        passes = self._config.accumulate * self._processes.size
        if self._config.batch_size % passes:
            raise ConfigError(
                f"batch_size = {self._config.batch_size}, which cannot be divided into {passes} equal parts"
            )
        self._optimizer = adamw(self._module, self._config.lr, self._config.weight_decay)
        self._counters, latest = Counters(), self._saves.latest()
        if latest is not None and not resume:
            raise TrainingError(
                f"{self._saves.folder}: holds a run that reached step {latest}; resume it, or choose another folder"
            )
        if latest is not None:
            save = self._saves.read(latest, self._settings, self._module)
            copy_weights(save.weights, self._module)
            load_optimizer_state(self._optimizer, self._module, save.optimizer)
            self._counters = Counters(**save.counters)
        self._saves.folder.mkdir(parents=True, exist_ok=True)
        self._processes.broadcast_tensors(tensors_of(self._module).values())
        self._meter = Meter(
            self._processes,
            Cost.of(self._module),
            peak_flops(self._device, self._dtype),
            totals=self._counters.totals,
            counted=self._counters.counted,
            work=WorkDone.of(self._counters.work),
        )

    def _train(self) -> None:
        """Train until the last step, or until the dev metric stops improving."""
        first, steps = self._counters.step, range(self._counters.step, self._config.steps)
        if not steps or self._exhausted():
            return
        batches = prefetch(self._parts, steps, prefetch_processes(self._device))
        self._started = time.monotonic() - self._counters.seconds
        visible = None if self._processes.first else False
        with closing(batches), progress("training", len(steps), "steps", visible=visible) as bar:
            if first:
                bar.note(f"resumed at step {first}")
            for parts in batches:
                self._step([part.to(self._device) for part in parts])
                bar.advance()
                self._log_and_save(bar)
                if self._exhausted():
                    return

    def _parts(self, step: int) -> list[AnyBatch]:
        """This process's share of a step: one batch per pass."""
        passes, processes = self._config.accumulate, self._processes.size
        parts = (Part(turn * processes + self._processes.rank, passes * processes) for turn in range(passes))
        return [self._batch(step, part) for part in parts]

    def _step(self, parts: list[AnyBatch]) -> None:
        step = self._counters.step
        lr = self._config.rate(step)
        _seed(self._device, self._config.seed, step, self._processes.rank)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        values = [self._backward(part) for part in parts]
        if self._processes.size > 1:
            average_gradients(self._module, self._processes)
        norm = clip(self._module, self._config.clip)
        self._optimizer.step()
        self._optimizer.zero_grad()
        load = sum((part.load for part in parts), Load())
        self._counters.step += 1
        self._meter.add(StepReport(self._counters.step, lr, mean_values(values), norm, load))

    def _backward(self, part: AnyBatch) -> dict[str, Tensor]:
        with torch.autocast(self._device.type, self._dtype, enabled=self._rounded):
            found = self._loss(part)
        values = {"loss": found} if isinstance(found, Tensor) else dict(found)
        (values["loss"] / self._config.accumulate).backward()  # type: ignore[no-untyped-call]
        return {name: value.detach() for name, value in values.items()}

    def _log_and_save(self, bar: Bar) -> None:
        """Log, evaluate and save, each if due."""
        step, config = self._counters.step, self._config
        last, better = step == config.steps, False
        if last or step % config.log_every == 0:
            self._report(bar)
        if self._evaluate is not None and (last or (config.evaluate_every and step % config.evaluate_every == 0)):
            better = self._measure(self._evaluate)
        if last or better or self._exhausted() or step % config.save_every == 0:
            self._save()

    def _report(self, bar: Bar) -> None:
        record = self._meter.record()
        self._log.write({"step": self._counters.step, **record, "seconds": self._seconds})
        bar.note(f"loss {record['loss']:.4g}, {record['tokens_per_second']:,.0f} tokens/s")

    def _measure(self, evaluate: Callable[[], float | Mapping[str, float]]) -> bool:
        """Measure the dev metric; return whether it is the best so far."""
        self._meter.read()
        self._module.eval()
        with torch.no_grad():
            found = evaluate()
        self._module.train()
        values = dict(found) if isinstance(found, Mapping) else {"metric": found}
        shared = torch.tensor(values["metric"], dtype=torch.float64, device=self._device)
        self._processes.broadcast_tensors([shared])
        values["metric"] = metric = shared.item()
        self._log.write({"step": self._counters.step, **values})
        self._meter.restart()
        counters = self._counters
        better = metric > (-math.inf if counters.metric is None else counters.metric)
        if better:
            counters.best_step, counters.metric = counters.step, metric
        counters.stale = 0 if better else counters.stale + 1
        return better

    def _save(self) -> None:
        self._meter.read()
        counters = self._counters
        counters.totals, counters.counted, counters.loss = self._meter.totals, self._meter.counted, self._meter.loss
        counters.work, counters.seconds = asdict(self._meter.work), self._seconds
        if self._processes.first:
            weights, optimizer = tensors_of(self._module), optimizer_state(self._optimizer, self._module)
            save = Save(counters.step, self._settings, asdict(counters), weights, optimizer)
            self._saves.write(save, counters.best_step)
        self._processes.wait()
        self._meter.restart()

    @property
    def _rounded(self) -> bool:
        return self._dtype != torch.float32

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _exhausted(self) -> bool:
        return self._config.patience is not None and self._counters.stale >= self._config.patience


def _check_weights(module: nn.Module) -> None:
    rounded = next((p.dtype for p in module.parameters() if p.requires_grad and p.dtype != torch.float32), None)
    if rounded is not None:
        raise TrainingError(
            f"the weights are {rounded}, but training needs float32: load the model with trainable=True"
        )


def _seed(device: torch.device, *numbers: int) -> None:
    """Seed every global random generator by these numbers."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a stack trace for every absent device type
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
