"""The threads of a search."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from baleen.core.parallel import available_cores

PIECES_PER_THREAD = 4  # so that a thread delayed by other work takes fewer


class Workers:
    """A thread pool that helps the calling thread.  Safe to use from several threads."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or available_cores()
        helpers = self.threads - 1
        self._pool = ThreadPoolExecutor(helpers, thread_name_prefix="baleen-search") if helpers else None

    def share(self, count: int, run: Callable[[int, int], None], min_size: int = 1) -> None:
        """Call `run(start, stop)` over 0:count in pieces of at least `min_size`; each thread takes the next piece."""
        pieces = min(PIECES_PER_THREAD * self.threads, max(1, count // min_size))
        if pieces == 1 or self._pool is None:
            run(0, count)
            return
        edges = [count * piece // pieces for piece in range(pieces + 1)]
        remaining = iter(list(pairwise(edges)))  # an iterator of a list is thread-safe: each item is taken once

        def work() -> None:
            for start, stop in remaining:
                run(start, stop)

        helpers = [self._pool.submit(work) for _ in range(min(self.threads, pieces) - 1)]
        work()
        for helper in helpers:
            if not helper.cancel():  # a helper that has not started has nothing left to do
                helper.result()
