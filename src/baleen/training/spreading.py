"""Work on many items by several processes, each on stretches of them, with what comes of it in order.

For work that is Python alone.  The processes are forks: they have all that the work knows, and nothing is sent to them but
numbers.  What they return is sent back, so it should be small beside the work.  They must leave GPUs and models alone.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from baleen.training.forks import cores_each, forks_are_safe, quiet_forks

Item = TypeVar("Item")
Result = TypeVar("Result")

FEWEST = 1000  # items for a process to be worth its while

_held: list[Any] = []  # in a fork: its work


def spread(
    work: Callable[[Sequence[Item]], Result], items: Iterable[Item], at_once: int, processes: int | None = None
) -> Iterator[Result]:
    """`work` of each stretch of `at_once` items, in order: by so many processes, or if None by as many as pay.

    An error of the work is raised here.  What is no sequence cannot be shared out, and is worked on here.
    """
    if not isinstance(items, Sequence):
        return map(work, _stretches(items, at_once))
    count = paying(len(items)) if processes is None else processes
    if count < 2:
        return (work(items[start : start + at_once]) for start in range(0, len(items), at_once))
    return _by_forks(work, items, at_once, count)


def paying(items: int) -> int:
    """How many processes so many items are work for: with the cores that this one has beside others of its run."""
    return max(1, min(cores_each(), items // FEWEST)) if forks_are_safe() else 1


def _stretches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    source = iter(items)
    return iter(lambda: list(islice(source, size)), [])


def _by_forks(
    work: Callable[[Sequence[Item]], Result], items: Sequence[Item], at_once: int, count: int
) -> Iterator[Result]:
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, fork, _begin, (work, items, at_once)) as pool:
        with quiet_forks():
            found = pool.map(_part, range(0, len(items), at_once))
        yield from found


def _begin(*held: Any) -> None:
    """Garbage is not searched for, which would copy all pages that objects stand on: it goes when the process does."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts a run means the first process, which ends the others
    _held.append(held)


def _part(start: int) -> Any:
    work, items, at_once = _held[-1]
    return work(items[start : start + at_once])
