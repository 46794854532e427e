"""Token vectors between encoder and index, in numpy alone, so that an index needs no torch.

QueryVectors        one query: vectors of the claim, and of its facts
PassageVectors      many passages: concatenated vectors, and their number for each passage
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class QueryVectors:
    """Normalised float32 vectors: `query` (N, d) of the claim, `facts` (L, d) of the facts, L = 0 at the first hop."""

    query: npt.NDArray[np.float32]
    facts: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        assert self.query.ndim == self.facts.ndim == 2, "one vector per row"
        assert self.query.shape[1] == self.facts.shape[1], "claim and facts share one space"

    @classmethod
    def without_facts(cls, query: npt.NDArray[np.float32]) -> Self:
        return cls(query, np.empty((0, query.shape[1]), np.float32))

    @property
    def dim(self) -> int:
        return int(self.query.shape[1])


@dataclass(frozen=True, eq=False)
class PassageVectors:
    """Normalised vectors of `n` passages: `vectors` (total, d) float16 or float32, `lengths` (n,) int32.

    `self[i]` is a view of the rows of passage `i`, `offsets[i]:offsets[i + 1]`.
    """

    vectors: Floats
    lengths: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        assert self.vectors.ndim == 2
        assert self.lengths.ndim == 1
        assert int(self.lengths.sum()) == len(self.vectors), "every row belongs to one passage"

    @classmethod
    def of(cls, parts: Sequence[Floats]) -> Self:
        """Concatenate one (length, d) array per passage; at least one array."""
        return cls(np.concatenate(parts), np.array([len(part) for part in parts], np.int32))

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """(n + 1,): the first row of each passage, and the number of rows."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)])

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> Floats:
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        i %= len(self)
        return self.vectors[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[Floats]:
        return (self[i] for i in range(len(self)))
