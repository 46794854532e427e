"""The threads of a search, and the memory that each keeps from search to search."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.core.parallel import available_cores
from baleen.index.cpu import kernels

Array = npt.NDArray[Any]

PIECES = 4  # per thread: a thread that other work holds up takes fewer of them


class Workers:
    """A pool of threads beside the thread that searches.  Safe to use from several threads."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or available_cores()
        helpers = self.threads - 1
        self._pool = ThreadPoolExecutor(helpers, thread_name_prefix="baleen-search") if helpers else None

    def share(self, count: int, run: Callable[[int, int], None], smallest: int = 1) -> None:
        """Run over 0:count in even pieces of at least `smallest`; each thread takes the next piece until none is left."""
        pieces = min(PIECES * self.threads, max(1, count // smallest))
        if pieces == 1 or self._pool is None:
            run(0, count)
            return
        edges = [count * piece // pieces for piece in range(pieces + 1)]
        left = iter(list(pairwise(edges)))  # a list's iterator hands out each item once, whichever thread asks

        def work() -> None:
            for start, stop in left:
                run(start, stop)

        helpers = [self._pool.submit(work) for _ in range(min(self.threads, pieces) - 1)]
        work()
        for helper in helpers:
            if not helper.cancel():  # one that has not started has nothing left to do
                helper.result()


class Buffer:
    """Memory for one array that grows with the largest shape asked for."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self._kind = kind
        self._flat = kernels.aligned((0,), kind)

    def shaped(self, *shape: int) -> Array:
        """An array of this shape, not cleared."""
        size = int(np.prod(shape, dtype=np.int64))
        if len(self._flat) < size:
            self._flat = kernels.aligned((size,), self._kind)
        return self._flat[:size].reshape(shape)


class Scratch(threading.local):
    """The arrays of a search, one set per thread and kept: fresh memory would cost more than its use."""

    def __init__(self) -> None:
        self.floats = Buffer(np.float32)
        self.entries = Buffer(np.uint8)
        self.scores = Buffer(np.int16)
        self.score_bytes = Buffer(np.uint8)
        self.block_best = Buffer(np.int16)
        self.rows = Buffer(np.int64)
        self.evidence = Buffer(np.int32)
        self.tally = Buffer(np.int32)
