"""One loop for every model: it knows parameters, batches and a loss, and nothing of what they are about.

    trainer = Trainer(module, batch, loss, TrainConfig(steps=1000), "runs/first", evaluate=dev_metric)
    outcome = trainer.run(resume=True)

What happens at a step depends on the seed, the step and the weights alone: batches are functions of the step, and all
random generators are seeded anew at each.  So a run that is killed and resumed ends as an undisturbed one does: on a CPU
with as many threads, bit for bit.  Started by torchrun, each process takes its share of every batch, and only the first
one writes.

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
from baleen.training.loop.logs import Cost, Load, Meter, Speed, StepReport, TrainLog, Work, means, peak
from baleen.training.loop.optimizer import adamw, clip, dropping, moments, restore
from baleen.training.loop.prefetching import helpers, prefetch
from baleen.training.loop.sampling import Part
from baleen.training.loop.saves import Save, Saves, copy_weights, tensors_of

# What a resumed run may be told otherwise: none of it changes what is learnt.
_FREE = ("device", "save_every", "log_every")


class Batch(Protocol):
    """What goes into a loss: it knows how much work it is, and moves to a device."""

    @property
    def load(self) -> Load: ...

    def to(self, device: torch.device) -> Self: ...


AnyBatch = TypeVar("AnyBatch", bound=Batch)


@dataclass(frozen=True)
class Outcome:
    """How a run ended: after which `step`, with what loss there, how fast, and the best dev metric with its step.

    The module holds the weights of `best_step` where there is one, else those of `step`.  `seconds` are all that went by,
    `speed` is of the training alone.
    """

    step: int
    loss: float
    seconds: float
    speed: Speed
    best_step: int | None = None
    metric: float | None = None

    def report(self) -> dict[str, Any]:
        """What a stage says of its training."""
        speeds = {name: value if value is None else round(value, 4) for name, value in asdict(self.speed).items()}
        return {"steps": self.step, "loss": self.loss, "training_seconds": round(self.seconds, 2), **speeds}


@dataclass
class Counters:
    """Where a run stands; all of it is saved.  `stale` counts evaluations since the best one."""

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
    """Trains `module` on `batch(step, part)` by `loss(batch)`, writing into `folder`.

    `batch` is called ahead of time, in a thread or in forked processes, with steps counted from 0; it must depend on
    its arguments alone and leave the global random generators be.  `loss` returns a mean over the batch's examples, or
    several named tensors of which `loss` is minimised and all are logged.  `evaluate` returns what is to be maximised,
    or several numbers of which that is `metric`; every process calls it, and the first one's number counts.  `about` is
    whatever else a resumed run must have in common with the one it takes up: settings, hashes of data.
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
        told = {name: value for name, value in to_mapping(config).items() if name not in _FREE}
        if config.dropout is None:
            del told["dropout"]  # runs that were begun before there was such a setting go on
        self._told: dict[str, Any] = json.loads(json.dumps({**told, **(about or {})}))
        self._device = local_device(config.device)
        choices = {"auto": best_dtype(self._device), "bfloat16": torch.bfloat16, "float32": torch.float32}
        self._dtype = choices[config.precision]
        self._counters = Counters()

    def run(self, *, resume: bool = False) -> Outcome:
        """Train to the end, from the last save if `resume` and there is one; without it the folder must hold none."""
        with process_group(self._device) as self._processes, self._training():
            self._begin(resume)
            with TrainLog(self._saves.folder, self._counters.step, silent=not self._processes.first) as self._log:
                self._train()
                self._log.draw()
        reached = self._counters
        if reached.best_step is not None and reached.best_step != reached.step:
            self._saves.load_weights(reached.best_step, self._module)
        speed = self._meter.speed
        return Outcome(reached.step, reached.loss, reached.seconds, speed, reached.best_step, reached.metric)

    @contextmanager
    def _training(self) -> Iterator[None]:
        before, precision = self._module.training, torch.get_float32_matmul_precision()
        self._module.to(self._device).train()
        disable_cudnn_attention(self._device)
        if self._rounded and self._device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # scores of vectors that a bfloat16 backbone made need no more
        try:
            with dropping(self._module, self._config.dropout):
                yield
        finally:
            torch.set_float32_matmul_precision(precision)
            self._module.train(before)

    def _begin(self, resume: bool) -> None:
        passes = self._config.accumulate * self._processes.size
        if self._config.batch_size % passes:
            raise ConfigError(
                f"batch_size = {self._config.batch_size}, which does not divide into {passes} equal parts"
            )
        self._optimizer = adamw(self._module, self._config.lr, self._config.weight_decay)
        self._counters, latest = Counters(), self._saves.latest()
        if latest is not None and not resume:
            raise TrainingError(
                f"{self._saves.folder}: holds a run that reached step {latest}: resume it, or choose another folder"
            )
        if latest is not None:
            save = self._saves.read(latest, self._told, self._module)
            copy_weights(save.weights, self._module)
            restore(self._optimizer, self._module, save.moments)
            self._counters = Counters(**save.counters)
        self._saves.folder.mkdir(parents=True, exist_ok=True)
        self._processes.share(tensors_of(self._module).values())
        self._meter = Meter(
            self._processes,
            Cost.of(self._module),
            peak(self._device, self._dtype),
            self._counters.totals,
            self._counters.counted,
            Work.of(self._counters.work),
        )

    def _train(self) -> None:
        """Steps until the last one, or until the dev metric has stood still for long enough."""
        first, steps = self._counters.step, range(self._counters.step, self._config.steps)
        if not steps or self._exhausted():
            return
        batches = prefetch(self._parts, steps, helpers(self._device))
        self._started = time.monotonic() - self._counters.seconds
        visible = None if self._processes.first else False
        with closing(batches), progress("training", len(steps), "steps", visible=visible) as bar:
            if first:
                bar.note(f"from step {first}")
            for parts in batches:
                self._step([part.to(self._device) for part in parts])
                bar.advance()
                self._follow(bar)
                if self._exhausted():
                    return

    def _parts(self, step: int) -> list[AnyBatch]:
        """This process's share of a step: one batch for each pass."""
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
        self._meter.add(StepReport(self._counters.step, lr, means(values), norm, load))

    def _backward(self, part: AnyBatch) -> dict[str, Tensor]:
        with torch.autocast(self._device.type, self._dtype, enabled=self._rounded):
            found = self._loss(part)
        values = {"loss": found} if isinstance(found, Tensor) else dict(found)
        (values["loss"] / self._config.accumulate).backward()  # type: ignore[no-untyped-call]
        return {name: value.detach() for name, value in values.items()}

    def _follow(self, bar: Bar) -> None:
        """After a step: what is due of log, evaluation and save, in that order."""
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
        """Take the dev metric; whether it is the best so far."""
        self._meter.settle()
        self._module.eval()
        with torch.no_grad():
            found = evaluate()
        self._module.train()
        values = dict(found) if isinstance(found, Mapping) else {"metric": found}
        shared = torch.tensor(values["metric"], dtype=torch.float64, device=self._device)
        self._processes.share([shared])
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
        self._meter.settle()
        counters = self._counters
        counters.totals, counters.counted, counters.loss = self._meter.totals, self._meter.counted, self._meter.loss
        counters.work, counters.seconds = asdict(self._meter.work), self._seconds
        if self._processes.first:
            weights, kept = tensors_of(self._module), moments(self._optimizer, self._module)
            save = Save(counters.step, self._told, asdict(counters), weights, kept)
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
            f"the weights are {rounded}, and are trained in float32: load the model with trainable=True"
        )


def _seed(device: torch.device, *numbers: int) -> None:
    """Every global random generator, so that what a step draws depends on these numbers alone."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)  # `torch.manual_seed` formats a stack for every absent kind of device
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
