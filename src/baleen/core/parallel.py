"""How many processor cores this process may use.

Work done ahead of who asks for it: one stage of a stream in a thread of its own, so that stages overlap.

Forks of a process that has threads, tokenizers and perhaps a GPU: where they are safe, and without a word of theirs.

Work on many items by several processes, each on stretches of them, with what comes of it in order.

For work that is Python alone.  The processes are forks: they have all that the work knows, and nothing is sent to them but
numbers.  What they return is sent back, so it should be small beside the work.  They must leave GPUs and models alone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from queue import Empty, Queue
from threading import Event, Thread, current_thread
from typing import Any, TypeVar


def available_cores() -> int:
    """Those it is bound to where the system tells, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


Item = TypeVar("Item")


class _End:
    """What comes after the last item: the error that ended the stream, if one did."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def background(items: Iterable[Item], room: int = 1) -> Generator[Item]:
    """The same items in the same order; up to `room` of them wait here, while a thread makes the one after.

    An error comes when its turn does, after every item before it.  Closing this ends the thread, which is waited for
    until it has made what it is at, and closes `items`: who may fail on the way should hold it by `closing`.
    """
    waiting: Queue[Item | _End] = Queue(room)
    unwanted = Event()

    def work() -> None:
        end = _End()
        try:
            source = iter(items)
            for item in source:
                waiting.put(item)
                del item  # or it would be held while the next one is made
                if unwanted.is_set():
                    break
            if isinstance(source, Generator):
                source.close()
        except BaseException as error:
            end = _End(error)
        waiting.put(end)

    worker = Thread(target=work, name="ahead", daemon=True)
    worker.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            yield item
            del item
        if item.error is not None:
            raise item.error
    finally:
        unwanted.set()
        while worker.is_alive() and current_thread() is not worker:  # make room for what it still has in hand
            try:
                waiting.get(timeout=0.01)
            except Empty:
                continue


_TOKENIZERS = "TOKENIZERS_PARALLELISM"


def forks_are_safe() -> bool:
    """Where the system has them, and its own libraries take a fork of a process with threads."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def cores_per_process() -> int:
    """The cores that this process has beside others of its run on this machine."""
    return max(1, available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


@contextmanager
def quiet_forks() -> Iterator[None]:
    """Tokenizers that are forked here use one thread each: those of the parent do not come along."""
    before = os.environ.get(_TOKENIZERS)
    os.environ[_TOKENIZERS] = "false"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            yield
    finally:
        if before is None:
            del os.environ[_TOKENIZERS]
        else:
            os.environ[_TOKENIZERS] = before


Result = TypeVar("Result")

FEWEST = 1000  # items for a process to be worth its while

_held: list[Any] = []  # in a fork: its work


def map_chunks(
    work: Callable[[Sequence[Item]], Result], items: Iterable[Item], at_once: int, processes: int | None = None
) -> Iterator[Result]:
    """`work` of each stretch of `at_once` items, in order: by so many processes, or if None by as many as pay.

    An error of the work is raised here.  What is no sequence cannot be shared out, and is worked on here.
    """
    if not isinstance(items, Sequence):
        return map(work, _stretches(items, at_once))
    count = worthwhile_processes(len(items)) if processes is None else processes
    if count < 2:
        return (work(items[start : start + at_once]) for start in range(0, len(items), at_once))
    return _by_forks(work, items, at_once, count)


def worthwhile_processes(items: int) -> int:
    """How many processes so many items are work for: with the cores that this one has beside others of its run."""
    return max(1, min(cores_per_process(), items // FEWEST)) if forks_are_safe() else 1


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
