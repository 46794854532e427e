"""Background threads and forked workers, for work that overlaps or is spread over cores.

    background      iterate in a background thread
    map_chunks      map a function over chunks of a sequence, in forked processes where that pays
    quiet_forks     fork without warnings and without threads of tokenizers

Forked workers inherit all that the work refers to, so only chunk numbers are sent to them.  Their results are sent
back, and should be small beside the work.  They must not touch GPUs or models.
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

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """The number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _End:
    """The end of a stream, with the error that ended it, if any."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def background(items: Iterable[Item], buffer: int = 1) -> Generator[Item]:
    """Iterate in a background thread, with up to `buffer` finished items waiting.

    An error is raised in its turn, after every item before it.  Closing the generator waits for the item in work,
    ends the thread and closes `items`; a caller that may fail half-way should use `contextlib.closing`.
    """
    waiting: Queue[Item | _End] = Queue(buffer)
    closed = Event()

    def work() -> None:
        end = _End()
        try:
            source = iter(items)
            for item in source:
                waiting.put(item)
                del item  # free it before the next one is made
                if closed.is_set():
                    break
            if isinstance(source, Generator):
                source.close()
        except BaseException as error:
            end = _End(error)
        waiting.put(end)

    worker = Thread(target=work, name="background", daemon=True)
    worker.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            yield item
            del item
        if item.error is not None:
            raise item.error
    finally:
        closed.set()
        while worker.is_alive() and current_thread() is not worker:  # unblock its last put
            try:
                waiting.get(timeout=0.01)
            except Empty:
                continue


_TOKENIZERS = "TOKENIZERS_PARALLELISM"


def forks_are_safe() -> bool:
    """Whether this system can fork a process that has threads."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def cores_per_process() -> int:
    """Cores for each of the processes that torchrun started on this machine."""
    return max(1, available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


@contextmanager
def quiet_forks() -> Iterator[None]:
    """Fork without the warning about threads, and with single-threaded tokenizers in the fork."""
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


MIN_ITEMS = 1000  # per process, for a fork to pay

_inherited: list[Any] = []  # in a fork: its work


def map_chunks(
    work: Callable[[Sequence[Item]], Result], items: Iterable[Item], at_once: int, processes: int | None = None
) -> Iterator[Result]:
    """Apply `work` to chunks of `at_once` items and yield the results in order.

    `processes` None starts as many as pay.  An error of the work is raised here.  Items that are no sequence are
    worked on in this process.
    """
    if not isinstance(items, Sequence):
        return map(work, chunks(items, at_once))
    count = worthwhile_processes(len(items)) if processes is None else processes
    if count < 2:
        return (work(items[start : start + at_once]) for start in range(0, len(items), at_once))
    return _map_in_forks(work, items, at_once, count)


def worthwhile_processes(items: int) -> int:
    """The number of processes that pay for this number of items."""
    return max(1, min(cores_per_process(), items // MIN_ITEMS)) if forks_are_safe() else 1


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items; the last may be shorter."""
    source = iter(items)
    return iter(lambda: list(islice(source, size)), [])


def _map_in_forks(
    work: Callable[[Sequence[Item]], Result], items: Sequence[Item], at_once: int, count: int
) -> Iterator[Result]:
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, fork, _start_worker, (work, items, at_once)) as pool:
        with quiet_forks():
            found = pool.map(_work_on, range(0, len(items), at_once))
        yield from found


def _start_worker(*inherited: Any) -> None:
    gc.disable()  # a collection would write to, and so copy, every inherited page
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    _inherited.append(inherited)


def _work_on(start: int) -> Any:
    work, items, at_once = _inherited[-1]
    return work(items[start : start + at_once])
