"""Background iteration: the same items and errors, and no thread left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from baleen.core.parallel import background


def workers() -> int:
    return sum(thread.name == "background" for thread in threading.enumerate())


@pytest.mark.parametrize("room", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_items_come_in_their_order(count: int, room: int) -> None:
    assert list(background(range(count), room)) == list(range(count))
    assert workers() == 0


def test_none_is_an_item_like_others() -> None:
    assert list(background([None, 0, None])) == [None, 0, None]


def test_an_error_comes_after_the_items_before_it() -> None:
    def broken() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("no third")

    stream = background(broken())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(ValueError, match="no third"):
        next(stream)
    assert workers() == 0


def test_what_cannot_be_iterated_over_is_an_error_and_no_wait() -> None:
    with pytest.raises(TypeError):
        list(background(5))  # type: ignore[call-overload]
    assert workers() == 0


def test_an_error_of_the_consumer_closes_the_source() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 0
        finally:
            closed.set()

    def consume() -> None:
        with closing(background(endless())) as stream:
            for _ in stream:
                raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        consume()
    assert closed.is_set()
    assert workers() == 0


def test_one_that_is_never_begun_starts_nothing() -> None:
    stream = background(range(3))
    assert workers() == 0
    stream.close()


def test_the_buffer_limits_the_items_made_ahead() -> None:
    made: list[int] = []
    third = threading.Event()

    def source() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    stream = background(source(), buffer=1)
    assert next(stream) == 0
    assert third.wait(5), "one waits, and one is in the making"
    assert len(made) <= 3
    stream.close()


def test_the_work_is_done_in_another_thread() -> None:
    names = list(background(threading.current_thread().name for _ in range(2)))
    assert names == ["background", "background"]


def test_streams_can_be_stages_of_each_other() -> None:
    doubled = background(2 * item for item in background(range(20)))
    assert list(doubled) == [2 * item for item in range(20)]
    assert workers() == 0
