"""Which examples a step takes: a function of the seed and the step, so that any step can be made without those before.

The examples are shuffled anew for every epoch, and the epochs stand end to end: one endless row of places.  Step `s` of
batches of `b` takes the places from `s * b` on.  A `Part` is one process's, or one pass's, share of a step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from baleen.errors import TrainingError

Key = TypeVar("Key")
Item = TypeVar("Item")


@dataclass(frozen=True)
class Part:
    """Share `index` of `count` equal shares."""

    index: int = 0
    count: int = 1

    def of(self, places: range) -> range:
        size = len(places) // self.count
        return places[self.index * size : (self.index + 1) * size]


WHOLE = Part()


class Order:
    """`size` examples in batches of `batch_size`, for ever, shuffled by `seed`."""

    def __init__(self, size: int, batch_size: int, seed: int) -> None:
        if size < 1:
            raise TrainingError("there is nothing to train on: no examples were given")
        self._size, self._batch_size, self._seed = size, batch_size, seed
        self._shuffled: dict[int, npt.NDArray[np.int64]] = {}

    def places(self, step: int, part: Part = WHOLE) -> range:
        start = step * self._batch_size
        return part.of(range(start, start + self._batch_size))

    def row(self, place: int) -> int:
        """The example that stands at `place`."""
        epoch, offset = divmod(place, self._size)
        if epoch not in self._shuffled:
            rows = np.random.default_rng([self._seed, 0, epoch]).permutation(self._size)
            self._shuffled = {known: self._shuffled[known] for known in self._shuffled if known == epoch - 1}
            self._shuffled[epoch] = rows
        return int(self._shuffled[epoch][offset])

    def rng(self, place: int) -> np.random.Generator:
        """Randomness for what else is drawn for the example at `place`."""
        return np.random.default_rng([self._seed, 1, place])


def prefetch(make: Callable[[Key], Item], keys: Iterable[Key], depth: int = 3) -> Generator[Item]:
    """`make(key)` for each key in order, made by a thread up to `depth` ahead of what is taken."""
    source, waiting = iter(keys), deque[Future[Item]]()
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
    try:
        for key in source:
            waiting.append(pool.submit(make, key))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
