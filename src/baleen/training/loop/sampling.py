"""Which examples a step takes: a function of seed and step, so that any step can be made without those before.

Examples are shuffled anew for every epoch, and epochs follow each other in one endless sequence of places.  Step `s` with
batches of `b` takes the places from `s * b` on.  A `Part` is the share of one process or pass.

With weights, an example of half the largest weight is in every second epoch, one of a tenth in every tenth: its count is
never off by more than one.  The seed decides about the epochs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from baleen.core.errors import TrainingError


@dataclass(frozen=True)
class Part:
    """Share number `index` of `count` equal shares of a batch."""

    index: int = 0
    count: int = 1

    def of(self, places: range) -> range:
        size = len(places) // self.count
        return places[self.index * size : (self.index + 1) * size]


WHOLE_BATCH = Part()


class Order:
    """An endless sequence of `size` examples, shuffled by `seed`, each as often as its weight says."""

    def __init__(self, size: int, batch_size: int, seed: int, weights: Sequence[float] | None = None) -> None:
        if size < 1:
            raise TrainingError("there is nothing to train on: no examples were given")
        self._batch_size, self._seed = batch_size, seed
        given = np.ones(size) if weights is None else np.asarray(weights, float)
        if len(given) != size or not given.min() > 0:
            raise TrainingError(f"{len(given)} weights for {size} examples; expected one above 0 for each")
        self._shares = given / given.max()
        self._phases = np.random.default_rng([seed, 2]).random(size)
        self._starts = [0]  # first place of each known epoch and of the next one
        self._shuffled: dict[int, npt.NDArray[np.int64]] = {}

    def places(self, step: int, part: Part = WHOLE_BATCH) -> range:
        start = step * self._batch_size
        return part.of(range(start, start + self._batch_size))

    def row(self, place: int) -> int:
        """The example at `place`."""
        while self._starts[-1] <= place:
            self._starts.append(self._starts[-1] + int(self._counts(len(self._starts) - 1).sum()))
        epoch = bisect_right(self._starts, place) - 1
        if epoch not in self._shuffled:
            self._shuffled = {known: self._shuffled[known] for known in self._shuffled if known == epoch - 1}
            self._shuffled[epoch] = self._epoch(epoch)
        return int(self._shuffled[epoch][place - self._starts[epoch]])

    def _counts(self, epoch: int) -> npt.NDArray[np.int64]:
        """How often each example occurs in an epoch."""
        ends = np.floor(np.outer([epoch, epoch + 1], self._shares) + self._phases)
        counts: npt.NDArray[np.int64] = np.diff(ends, axis=0)[0].astype(np.int64)
        return counts

    def _epoch(self, epoch: int) -> npt.NDArray[np.int64]:
        rows = np.repeat(np.arange(len(self._shares)), self._counts(epoch))
        return np.random.default_rng([self._seed, 0, epoch]).permutation(rows)

    def rng(self, place: int) -> np.random.Generator:
        """A random generator for everything else that is drawn for the example at `place`."""
        return np.random.default_rng([self._seed, 1, place])


class QuestionRecord(Protocol):
    """A training record of one question."""

    @property
    def qid(self) -> str: ...


Weights = Mapping[str, float]


def record_weights(records: Sequence[QuestionRecord], weights: Weights | None) -> list[float] | None:
    """Weight of each record by its question (default 1); None without any weights."""
    if not weights:
        return None
    return [weights.get(record.qid, 1.0) for record in records]
