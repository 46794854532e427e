"""Rows of unequal length in batches of like length, and what comes out of them back in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from baleen.vectors import Floats, PassageVectors


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Vectors of some rows end to end: row `rows[j]` owns the next `lengths[j]` of `vectors` (total, d)."""

    rows: Sequence[int]
    vectors: Tensor
    lengths: Sequence[int]


def token_batches(rows: Sequence[Sized], batch_tokens: int) -> Iterator[list[int]]:
    """The rows' indices, longest row first, in batches of at most `batch_tokens` with the padding counted.

    A row that is longer than that makes a batch of its own.
    """
    batch: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: -len(rows[i])):
        if batch and (len(batch) + 1) * len(rows[batch[0]]) > batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def in_order(parts: Sequence[EncodedRows]) -> PassageVectors:
    """Every row's vectors, in the order of the rows' indices."""
    pieces: dict[int, Floats] = {}
    for part in parts:
        split = np.split(part.vectors.cpu().numpy(), np.cumsum(part.lengths)[:-1])
        pieces.update(zip(part.rows, split, strict=True))
    return PassageVectors.of([pieces[i] for i in range(len(pieces))])
