"""Logs of a training run: losses, norms and throughput, as log.jsonl, TensorBoard events and curves.png.

Reading a number off a GPU waits for everything queued there, so losses and norms stay on the device until a record, a
save or an evaluation is due.  They are checked for infinities then, before anything is written.

A line of log.jsonl is one JSON object with its `step`.  A resumed run first removes the lines past its step, so that an
interrupted run and an undisturbed one log the same steps.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from baleen.core.errors import TrainingError
from baleen.training.loop.distributed import Processes

Record = Mapping[str, Any]

LOG, CURVES, _EVENTS = "log.jsonl", "curves.png", "tensorboard"
NORM = "grad_norm"
MIN_RECORDS = 8  # for curves: fewer are easier to read than to draw
NOT_DRAWN = ("seconds", "steps_per_second", "tokens_per_second", "examples_per_second", "padding", "utilisation")

# Dense bfloat16 operations per second from the data sheets; longer names first.
_PEAK_FLOPS = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
}


@dataclass(frozen=True)
class Load:
    """Amount of work in a batch: `examples`, their real `tokens`, and `slots`, which include padding.

    `squares` is the sum of the squared sequence lengths, which the cost of attention grows with.
    """

    examples: int = 0
    tokens: int = 0
    slots: int = 0
    squares: int = 0

    @classmethod
    def of(cls, examples: int, masks: Iterable[Tensor]) -> Self:
        """Load of batches with these `masks` (B, T) bool of real tokens."""
        lengths = [(mask.sum(dim=1), mask.numel()) for mask in masks]
        return cls(
            examples=examples,
            tokens=sum(int(length.sum()) for length, _ in lengths),
            slots=sum(slots for _, slots in lengths),
            squares=sum(int((length**2).sum()) for length, _ in lengths),
        )

    def __add__(self, other: Load) -> Load:
        return Load(
            self.examples + other.examples,
            self.tokens + other.tokens,
            self.slots + other.slots,
            self.squares + other.squares,
        )

    @property
    def padding(self) -> float:
        """Share of slots without a token."""
        return 1 - self.tokens / self.slots if self.slots else 0.0


@dataclass(frozen=True)
class WorkDone:
    """Work of one process: `steps` with their `load`, in `seconds` of training without saves and evaluations."""

    load: Load = Load()
    steps: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Self:
        """Restore from `asdict`; an empty mapping is no work."""
        return cls(Load(**saved["load"]), saved["steps"], saved["seconds"]) if saved else cls()

    def plus(self, load: Load, steps: int, seconds: float) -> WorkDone:
        return WorkDone(self.load + load, self.steps + steps, self.seconds + seconds)


@dataclass(frozen=True)
class Speed:
    """Steps, real tokens and examples per second, over all processes.

    `padding` is the share of slots without a token.  `utilisation` is the model FLOPs utilisation, or None if the peak of
    the device is unknown.
    """

    steps_per_second: float
    tokens_per_second: float
    examples_per_second: float
    padding: float
    utilisation: float | None

    @classmethod
    def of(cls, work: WorkDone, processes: int, cost: Cost, peak: float | None) -> Self:
        seconds = max(work.seconds, 1e-9)
        return cls(
            steps_per_second=work.steps / seconds,
            tokens_per_second=work.load.tokens * processes / seconds,
            examples_per_second=work.load.examples * processes / seconds,
            padding=work.load.padding,
            utilisation=None if peak is None else cost.flops(work.load) / seconds / peak,
        )


@dataclass(frozen=True)
class Cost:
    """Size of a model: `weights` applied to every token, and `layers` and `hidden` size of its attention."""

    weights: int
    layers: int = 0
    hidden: int = 0

    @classmethod
    def of(cls, module: nn.Module) -> Self:
        """Measure a module; embeddings do not count, and attention only in Hugging Face backbones."""
        looked_up = {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}
        weights = sum(p.numel() for p in module.parameters() if id(p) not in looked_up)
        configs = [getattr(part, "config", None) for part in module.modules()]
        found = next((c for c in configs if hasattr(c, "num_hidden_layers") and hasattr(c, "hidden_size")), None)
        return cls(weights, found.num_hidden_layers, found.hidden_size) if found is not None else cls(weights)

    def flops(self, load: Load) -> int:
        """Operations on real tokens of a forward pass and a backward pass, which costs twice as much."""
        return 6 * self.weights * load.tokens + 12 * self.layers * self.hidden * load.squares


def peak_flops(device: torch.device, dtype: torch.dtype) -> float | None:
    """Rated operations per second of a device, known for bfloat16 on some GPUs."""
    if device.type != "cuda" or dtype != torch.bfloat16:
        return None
    return gpu_peak_flops(torch.cuda.get_device_name(device))


def gpu_peak_flops(name: str) -> float | None:
    return next((operations for known, operations in _PEAK_FLOPS.items() if known in name), None)


@dataclass(frozen=True, eq=False)
class StepReport:
    """One update: `step` from 1, learning rate, loss and its parts as `values`, gradient `norm`."""

    step: int
    lr: float
    values: Mapping[str, Tensor]
    norm: Tensor
    load: Load

    @property
    def numbers(self) -> dict[str, Tensor]:
        return {**self.values, NORM: self.norm}


class Meter:
    """Means and speeds since the last record, and of the whole run.

    `totals`, `counted` and `work` restore the state of a resumed run.
    """

    def __init__(
        self,
        processes: Processes,
        cost: Cost,
        peak: float | None,
        *,
        totals: Mapping[str, float],
        counted: Mapping[str, int],
        work: WorkDone | None = None,
    ) -> None:
        self.totals, self.counted = dict(totals), dict(counted)
        self.loss = math.nan
        self._processes, self._cost, self._peak = processes, cost, peak
        self._pending: list[StepReport] = []
        self._before = work or WorkDone()
        self._load, self._steps = Load(), 0
        self._since = self._read_at = time.monotonic()

    @property
    def work(self) -> WorkDone:
        """All work up to the last `read`."""
        return self._before.plus(self._load, self._steps, self._read_at - self._since)

    @property
    def speed(self) -> Speed:
        """Speed of the whole run."""
        return self._speed(self.work)

    def restart(self) -> None:
        """Leave the time since the last `read` out of the speed: it was spent on saves or evaluations."""
        self._before, self._load, self._steps = self.work, Load(), 0
        self._since = self._read_at = time.monotonic()

    def add(self, report: StepReport) -> None:
        self._pending.append(report)
        self._load += report.load
        self._steps += 1

    def read(self) -> None:
        """Read all reports off the device; raise a TrainingError if a number is not finite."""
        if not self._pending:
            return
        flat = torch.cat([torch.stack([v.float() for v in report.numbers.values()]) for report in self._pending])
        self._processes.average([flat])
        numbers = iter(flat.tolist())
        for report in self._pending:
            values = {name: next(numbers) for name in report.numbers}
            _check_finite(report, values)
            for name, value in values.items():
                self.totals[name] = self.totals.get(name, 0.0) + value
                self.counted[name] = self.counted.get(name, 0) + 1
            self.loss = values["loss"]
        self._pending.clear()
        self._read_at = time.monotonic()

    def record(self) -> dict[str, Any]:
        """Means and speeds since the last record; starts the next one."""
        lr = self._pending[-1].lr
        self.read()
        means = {name: total / self.counted[name] for name, total in self.totals.items()}
        norm = means.pop(NORM)
        record = {**means, "lr": lr, NORM: norm, **self._speeds()}
        self.totals, self.counted = {}, {}
        self.restart()
        return record

    def _speeds(self) -> dict[str, float]:
        speeds = asdict(self._speed(WorkDone(self._load, self._steps, self._read_at - self._since)))
        return {name: value for name, value in speeds.items() if value is not None}

    def _speed(self, work: WorkDone) -> Speed:
        return Speed.of(work, self._processes.size, self._cost, self._peak)


def _check_finite(report: StepReport, values: Mapping[str, float]) -> None:
    bad = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    if bad:
        raise TrainingError(
            f"step {report.step}: {', '.join(bad)} at learning rate {report.lr:.3g}; the last save is from before: "
            f"resume it if the data was at fault, else start over with a lower lr or a longer warmup"
        )


def mean_values(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Mean of each value over the passes of a step, detached."""
    names = dict.fromkeys(name for part in parts for name in part)
    found = {name: [part[name].detach() for part in parts if name in part] for name in names}
    return {name: torch.stack(values).mean(dim=0) for name, values in found.items()}


def read_log(folder: str | Path) -> list[dict[str, Any]]:
    """Read the records of a run, oldest first; an incomplete last line is ignored."""
    path = Path(folder) / LOG
    return list(_records(path.read_bytes())) if path.exists() else []


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


class TrainLog:
    """Appends records after `step` to a run's log; a `silent` one writes nothing."""

    def __init__(self, folder: Path, step: int, *, silent: bool = False) -> None:
        self._folder, self._silent, self._events = folder, silent, None
        if not silent:
            with explain_write_errors(folder / LOG):
                _remove_after(folder, step)
            self._events = _event_writer(folder / _EVENTS, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._events is not None:
            self._events.close()

    def write(self, record: Record) -> None:
        if self._silent:
            return
        with explain_write_errors(self._folder / LOG), (self._folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        if self._events is not None:
            for name in _number_keys(record):
                self._events.add_scalar(name, record[name], record["step"])

    def draw(self) -> None:
        """Draw the whole log to curves.png, if matplotlib is installed."""
        if not self._silent:
            draw_curves(read_log(self._folder), self._folder / CURVES)


def _remove_after(folder: Path, step: int) -> None:
    """Remove the records after `step`; the log is replaced, never truncated in place."""
    kept = [record for record in read_log(folder) if record["step"] <= step]
    aside = folder / f"{LOG}.new"
    aside.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    os.replace(aside, folder / LOG)


def _number_keys(record: Record) -> list[str]:
    return [key for key, value in record.items() if isinstance(value, (int, float)) and key != "step"]


def _event_writer(folder: Path, step: int) -> Any:
    """TensorBoard's writer, which hides older events after `step`; None if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)  # type: ignore[no-untyped-call,unused-ignore]


def draw_curves(records: list[dict[str, Any]], path: Path) -> bool:
    """Draw a panel for each loss and dev metric over steps.

    Returns False without matplotlib, or with fewer than MIN_RECORDS records.
    """
    if len(records) < MIN_RECORDS:
        return False
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return False
    names = [name for name in dict.fromkeys(n for r in records for n in _number_keys(r)) if name not in NOT_DRAWN]
    if not names:
        return False
    figure = Figure(figsize=(7, 2.5 * len(names)), layout="constrained")
    for panel, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        known = [record for record in records if name in record]
        panel.plot([record["step"] for record in known], [record[name] for record in known])
        panel.set(xlabel="step", ylabel=name)
    with explain_write_errors(path):
        figure.savefig(path)
    return True


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError, such as a full disk, into a TrainingError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TrainingError(f"{path}: cannot be written: {reason}; fix that and resume the run") from error
