"""Work done ahead of who asks for it: one stage of a stream in a thread of its own, so that stages overlap."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from queue import Empty, Queue
from threading import Event, Thread, current_thread
from typing import TypeVar

Item = TypeVar("Item")


class _End:
    """What comes after the last item: the error that ended the stream, if one did."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def ahead(items: Iterable[Item], room: int = 1) -> Generator[Item]:
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
