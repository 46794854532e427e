"""What a head of the cross-encoder is trained on, a batch at a time: sequences, and what should be read at their places.

Sequences are laid out so that little of the work is padding (see reading_layouts.py); what the head says at their places
comes back in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from baleen.crossencoder import CrossModel
from baleen.crossinputs import CrossInput
from baleen.errors import ConfigError
from baleen.tokenization import onto
from baleen.training.reading_layouts import Grouped, Packed
from baleen.training.throughput import Load


@dataclass(frozen=True)
class ReadingTraining:
    """What heads learn from; the defaults are the paper's.

    `negatives` passages are drawn beside the positive one, for stage 1 of the condenser and for the reranker.  The
    binary half of stage 2's loss weighs `fact_weight`.  `packing` puts many sequences into one row (None: on a GPU,
    where the backbone takes it); without it, `most_padding` is the largest share of padding that goes through the model.
    The tokens of `remembered` texts are kept.
    """

    negatives: int = 1
    fact_weight: float = 1.0
    packing: bool | None = None
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
    """Some examples of one head: sequences with P places between them, and what should be read there.

    `targets` are the head's own.
    """

    head: str
    texts: Grouped | Packed
    targets: Mapping[str, Tensor]
    load: Load

    def to(self, device: torch.device) -> Self:
        targets = {name: onto(target, device) for name, target in self.targets.items()}
        return dataclasses.replace(self, texts=self.texts.to(device), targets=targets)

    def scores(self, model: CrossModel) -> Tensor:
        """What the head says at every place of every sequence, in order: (P, outputs)."""
        return self.texts.scores(model, self.head)


def load_of(examples: int, rows: Sequence[CrossInput], texts: Grouped | Packed) -> Load:
    """Of `rows` that are laid out as `texts`."""
    lengths = [len(row) for row in rows]
    return Load(examples, sum(lengths), texts.slots, sum(length**2 for length in lengths))


def table(rows: Iterable[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of unequal length side by side (B, n) int64, filled up with 0, and where they are real (B, n) bool."""
    rows = list(rows)
    numbers = np.zeros((len(rows), max([1, *map(len, rows)])), np.int64)
    real = np.zeros(numbers.shape, bool)
    for place, row in enumerate(rows):
        numbers[place, : len(row)], real[place, : len(row)] = row, True
    return torch.from_numpy(numbers), torch.from_numpy(real)
