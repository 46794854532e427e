"""How much work a batch is, and how well a device does it.

What the steps of a run report, gathered on the device and read only when somebody looks.

Reading a number off a GPU waits for all that was queued there.  So losses and norms stay where they are until a record,
a save or an evaluation is due; whether they are finite is checked then, before anything is written.

What a run writes for people: log.jsonl, TensorBoard's events and curves.png where their packages are installed.

A line of log.jsonl is one JSON object with its `step`; lines past the step that a run is taken up at are cut, so that
an interrupted run and an undisturbed one leave the same steps behind.
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

# Dense bfloat16 operations a second, as the vendor gives them; the longer name stands before the shorter.
_PEAKS = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
}


@dataclass(frozen=True)
class Load:
    """What goes through a model: `examples`, their real `tokens`, the `slots` that they fill with padding counted,
    and `squares`, the sum of the squared lengths of the sequences, which attention grows with.
    """

    examples: int = 0
    tokens: int = 0
    slots: int = 0
    squares: int = 0

    @classmethod
    def of(cls, examples: int, masks: Iterable[Tensor]) -> Self:
        """Of batches whose `masks` (B, T) bool are True at what is no padding."""
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
        """The share of slots that hold no token."""
        return 1 - self.tokens / self.slots if self.slots else 0.0


@dataclass(frozen=True)
class Work:
    """What a run has done: `steps` of `load`, one process's, in `seconds` of training without saves and evaluations."""

    load: Load = Load()
    steps: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Self:
        """What `asdict` made of one; nothing is no work."""
        return cls(Load(**saved["load"]), saved["steps"], saved["seconds"]) if saved else cls()

    def more(self, load: Load, steps: int, seconds: float) -> Work:
        return Work(self.load + load, self.steps + steps, self.seconds + seconds)


@dataclass(frozen=True)
class Speed:
    """How fast a training went: steps, and real tokens and examples of all processes, a second.

    `padding` is the share of slots that held no token.  `utilisation` is the share of the operations that the device is
    sold with (model FLOPs utilisation); None where that is not known.
    """

    steps_per_second: float
    tokens_per_second: float
    examples_per_second: float
    padding: float
    utilisation: float | None

    @classmethod
    def of(cls, work: Work, processes: int, cost: Cost, peak: float | None) -> Self:
        seconds = max(work.seconds, 1e-9)
        return cls(
            steps_per_second=work.steps / seconds,
            tokens_per_second=work.load.tokens * processes / seconds,
            examples_per_second=work.load.examples * processes / seconds,
            padding=work.load.padding,
            utilisation=None if peak is None else cost.operations(work.load) / seconds / peak,
        )


@dataclass(frozen=True)
class Cost:
    """What a model spends: `weights` that multiply every token, and the size of its attention, `layers` x `hidden`."""

    weights: int
    layers: int = 0
    hidden: int = 0

    @classmethod
    def of(cls, module: nn.Module) -> Self:
        """Embeddings are looked up, not multiplied; attention is known of the backbones of Hugging Face."""
        looked_up = {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}
        weights = sum(p.numel() for p in module.parameters() if id(p) not in looked_up)
        configs = [getattr(part, "config", None) for part in module.modules()]
        found = next((c for c in configs if hasattr(c, "num_hidden_layers") and hasattr(c, "hidden_size")), None)
        return cls(weights, found.num_hidden_layers, found.hidden_size) if found is not None else cls(weights)

    def operations(self, load: Load) -> int:
        """Of one forward and one backward pass, which costs twice as much, over real tokens."""
        return 6 * self.weights * load.tokens + 12 * self.layers * self.hidden * load.squares


def peak(device: torch.device, dtype: torch.dtype) -> float | None:
    """Operations a second that `device` is sold with, where that is known: for bfloat16 on some GPUs."""
    if device.type != "cuda" or dtype != torch.bfloat16:
        return None
    return peak_of(torch.cuda.get_device_name(device))


def peak_of(name: str) -> float | None:
    return next((operations for known, operations in _PEAKS.items() if known in name), None)


NORM = "grad_norm"


@dataclass(frozen=True, eq=False)
class StepReport:
    """One update: `step` counts from 1, `values` are the loss and its parts, `norm` is the gradients'."""

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

    `totals`, `counted` and `work` are those of a run that is taken up again.
    """

    def __init__(
        self,
        processes: Processes,
        cost: Cost,
        peak: float | None,
        totals: Mapping[str, float],
        counted: Mapping[str, int],
        work: Work | None = None,
    ) -> None:
        self.totals, self.counted = dict(totals), dict(counted)
        self.loss = math.nan
        self._processes, self._cost, self._peak = processes, cost, peak
        self._pending: list[StepReport] = []
        self._before = work or Work()
        self._load, self._steps = Load(), 0
        self._since = self._settled = time.monotonic()

    @property
    def work(self) -> Work:
        """All that was done until numbers were last read."""
        return self._before.more(self._load, self._steps, self._settled - self._since)

    @property
    def speed(self) -> Speed:
        """Of the whole run."""
        return self._speed(self.work)

    def restart(self) -> None:
        """Measure speed from now on: what lay between the last reading of numbers and now was no training."""
        self._before, self._load, self._steps = self.work, Load(), 0
        self._since = self._settled = time.monotonic()

    def add(self, report: StepReport) -> None:
        self._pending.append(report)
        self._load += report.load
        self._steps += 1

    def settle(self) -> None:
        """Read all that was reported; a number that is not finite is a TrainingError."""
        if not self._pending:
            return
        flat = torch.cat([torch.stack([v.float() for v in report.numbers.values()]) for report in self._pending])
        self._processes.average([flat])
        numbers = iter(flat.tolist())
        for report in self._pending:
            values = {name: next(numbers) for name in report.numbers}
            _check(report, values)
            for name, value in values.items():
                self.totals[name] = self.totals.get(name, 0.0) + value
                self.counted[name] = self.counted.get(name, 0) + 1
            self.loss = values["loss"]
        self._pending.clear()
        self._settled = time.monotonic()

    def record(self) -> dict[str, Any]:
        """Means and speeds since the last record, from which the next one starts."""
        lr = self._pending[-1].lr
        self.settle()
        means = {name: total / self.counted[name] for name, total in self.totals.items()}
        norm = means.pop(NORM)
        record = {**means, "lr": lr, NORM: norm, **self._speeds()}
        self.totals, self.counted = {}, {}
        self.restart()
        return record

    def _speeds(self) -> dict[str, float]:
        speeds = asdict(self._speed(Work(self._load, self._steps, self._settled - self._since)))
        return {name: value for name, value in speeds.items() if value is not None}

    def _speed(self, work: Work) -> Speed:
        return Speed.of(work, self._processes.size, self._cost, self._peak)


def _check(report: StepReport, values: Mapping[str, float]) -> None:
    wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    if wrong:
        raise TrainingError(
            f"step {report.step}: {', '.join(wrong)} at learning rate {report.lr:.3g}; the last save is from before that: "
            f"resume it where the data was at fault, else start again with a lower lr or a longer warmup"
        )


def means(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each value over the passes of a step, without its gradient."""
    names = dict.fromkeys(name for part in parts for name in part)
    found = {name: [part[name].detach() for part in parts if name in part] for name in names}
    return {name: torch.stack(values).mean(dim=0) for name, values in found.items()}


LOG = "log.jsonl"
CURVES = "curves.png"
LEAST_DRAWN = 8  # records: fewer are sooner read than drawn
_EVENTS = "tensorboard"

Record = Mapping[str, Any]


def read_log(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run, oldest first; a last line that was cut short is left out."""
    path = Path(folder) / LOG
    return list(_records(path.read_bytes())) if path.exists() else []


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


class TrainLog:
    """Appends records to a run's log, beginning after `step`; a `silent` one writes nothing."""

    def __init__(self, folder: Path, step: int, *, silent: bool = False) -> None:
        self._folder, self._silent, self._events = folder, silent, None
        if not silent:
            with writing(folder / LOG):
                _cut(folder, step)
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
        with writing(self._folder / LOG), (self._folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        if self._events is not None:
            for name in _numbers(record):
                self._events.add_scalar(name, record[name], record["step"])

    def draw(self) -> None:
        """Draw the whole log to curves.png, where matplotlib is installed."""
        if not self._silent:
            draw_curves(read_log(self._folder), self._folder / CURVES)


def _cut(folder: Path, step: int) -> None:
    """Keep the records up to `step`; the log is replaced at once, never cut in place."""
    kept = [record for record in read_log(folder) if record["step"] <= step]
    aside = folder / f"{LOG}.new"
    aside.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    os.replace(aside, folder / LOG)


def _numbers(record: Record) -> list[str]:
    return [key for key, value in record.items() if isinstance(value, (int, float)) and key != "step"]


def _event_writer(folder: Path, step: int) -> Any:
    """TensorBoard's writer, which hides events past `step` that an earlier run left; None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)  # type: ignore[no-untyped-call,unused-ignore]


def draw_curves(records: list[dict[str, Any]], path: Path) -> bool:
    """One panel for each of the loss's parts and of the dev metrics over steps; False where there is too little to draw.

    That is fewer than LEAST_DRAWN records, or no matplotlib to draw them with.
    """
    if len(records) < LEAST_DRAWN:
        return False
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return False
    names = [name for name in dict.fromkeys(n for r in records for n in _numbers(r)) if name not in UNDRAWN]
    if not names:
        return False
    figure = Figure(figsize=(7, 2.5 * len(names)), layout="constrained")
    for panel, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        known = [record for record in records if name in record]
        panel.plot([record["step"] for record in known], [record[name] for record in known])
        panel.set(xlabel="step", ylabel=name)
    with writing(path):
        figure.savefig(path)
    return True


UNDRAWN = ("seconds", "steps_per_second", "tokens_per_second", "examples_per_second", "padding", "utilisation")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A failure to write, a full disk above all, as a TrainingError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TrainingError(f"{path}: cannot be written: {reason}; mend that and resume the run") from error
