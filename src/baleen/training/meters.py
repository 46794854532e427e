"""What the steps of a run report, gathered on the device and read only when somebody looks.

Reading a number off a GPU waits for all that was queued there.  So losses and norms stay where they are until a record,
a save or an evaluation is due; whether they are finite is checked then, before anything is written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from baleen.errors import TrainingError
from baleen.training.distributed import Processes
from baleen.training.throughput import Cost, Load, Speed, Work

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
