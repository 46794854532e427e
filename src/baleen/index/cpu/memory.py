"""Memory of a search: aligned arrays, and the arrays that each thread keeps from search to search."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def aligned(shape: tuple[int, ...], kind: npt.DTypeLike) -> Array:
    """An uninitialized array that starts at a multiple of 64 bytes, so that no row of lanes straddles a cache line."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(kind).reshape(shape)


class Buffer:
    """Memory for one array; grows with the largest shape requested."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self._kind = kind
        self._flat = aligned((0,), kind)

    def shaped(self, *shape: int) -> Array:
        """An array of this shape, not cleared."""
        size = int(np.prod(shape, dtype=np.int64))
        if len(self._flat) < size:
            self._flat = aligned((size,), self._kind)
        return self._flat[:size].reshape(shape)


class Scratch(threading.local):
    """The arrays of a search, one set per thread, reused because fresh memory costs more than its use."""

    def __init__(self) -> None:
        self.floats = Buffer(np.float32)
        self.entries = Buffer(np.uint8)
        self.scores = Buffer(np.int16)
        self.score_bytes = Buffer(np.uint8)
        self.block_best = Buffer(np.int16)
        self.rows = Buffer(np.int64)
        self.evidence = Buffer(np.int32)
        self.tally = Buffer(np.int32)
