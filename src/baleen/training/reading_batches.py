"""What a head of the cross-encoder is trained on, a batch at a time: sequences, and what should be read at their places.

Sequences go through the model in groups of like length, so that little of the work is padding; what the head says at
their places is put back in order before it is compared with what it should say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
import torch
from torch import Tensor

from baleen.crossencoder import CrossModel
from baleen.crossinputs import CrossBatch, CrossInput, CrossInputs
from baleen.errors import ConfigError
from baleen.training.grouping import grouped
from baleen.training.throughput import Load


@dataclass(frozen=True)
class ReadingTraining:
    """What heads learn from; the defaults are the paper's.

    `negatives` passages are drawn beside the positive one, for stage 1 of the condenser and for the reranker.  The
    binary half of stage 2's loss weighs `fact_weight`.  `most_padding` is the largest share of padding that goes through
    the model.  The tokens of `remembered` texts are kept.
    """

    negatives: int = 1
    fact_weight: float = 1.0
    most_padding: float = 0.125
    remembered: int = 1 << 20

    def __post_init__(self) -> None:
        for name in ("negatives", "remembered"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}, which should be at least 1")
        if self.fact_weight < 0:
            raise ConfigError(f"fact_weight = {self.fact_weight}, which should not be negative")
        if not 0 <= self.most_padding < 1:
            raise ConfigError(f"most_padding = {self.most_padding}, which should be a share below 1")


@dataclass(frozen=True, eq=False)
class ReadingBatch:
    """Some examples of one head: R sequences with P places between them, and what should be read there.

    The places of all `groups`, end to end, hold the i-th place of the sequences in order at `order[i]` (P,) int64.
    `targets` are the head's own.
    """

    head: str
    groups: tuple[CrossBatch, ...]
    order: Tensor
    targets: Mapping[str, Tensor]
    load: Load

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(
            self,
            groups=tuple(group.to(device) for group in self.groups),
            order=self.order.to(device, non_blocking=True),
            targets={name: target.to(device, non_blocking=True) for name, target in self.targets.items()},
        )

    def scores(self, model: CrossModel) -> Tensor:
        """What the head says at every place of every sequence, in order: (P, outputs)."""
        return torch.cat([model(self.head, group) for group in self.groups]).index_select(0, self.order)


def reading_batch(
    head: str,
    inputs: CrossInputs,
    rows: Sequence[CrossInput],
    targets: Mapping[str, Tensor],
    *,
    examples: int,
    most_padding: float,
) -> ReadingBatch:
    """A batch of these `rows`, which are those of so many `examples`."""
    picked = grouped([len(row) for row in rows], most_padding)
    groups = tuple(inputs.batch([rows[i] for i in group]) for group in picked)
    edges = [0, *accumulate(len(row.places) for row in rows)]
    laid = [np.arange(edges[i], edges[i + 1]) for group in picked for i in group]
    order = torch.from_numpy(np.argsort(np.concatenate(laid)))
    return ReadingBatch(head, groups, order, targets, Load.of(examples, [group.attention for group in groups]))


def table(rows: Iterable[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of unequal length side by side (B, n) int64, filled up with 0, and where they are real (B, n) bool."""
    rows = list(rows)
    numbers = np.zeros((len(rows), max([1, *map(len, rows)])), np.int64)
    real = np.zeros(numbers.shape, bool)
    for place, row in enumerate(rows):
        numbers[place, : len(row)], real[place, : len(row)] = row, True
    return torch.from_numpy(numbers), torch.from_numpy(real)
