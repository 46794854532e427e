"""Work mapped over forked processes gives the results of one process, in order."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool

import pytest

from baleen.core import parallel
from baleen.core.errors import DatasetError
from baleen.core.parallel import MIN_ITEMS, map_chunks, worthwhile_processes

ITEMS = list(range(103))
fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def squares(items: Sequence[int]) -> list[int]:
    return [item * item for item in items]


@fork
@pytest.mark.parametrize("processes", [None, 1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 10, 103, 500])
def test_chunks_come_in_order_for_any_number_of_processes(processes: int | None, at_once: int) -> None:
    found = list(map_chunks(squares, ITEMS, at_once, processes))
    assert found == [squares(ITEMS[start : start + at_once]) for start in range(0, 103, at_once)]
    assert not multiprocessing.active_children()


@fork
def test_forks_inherit_what_the_work_refers_to() -> None:
    known = {item: f"number {item}" for item in ITEMS}  # which no process is sent
    found = list(map_chunks(lambda some: (os.getpid(), [known[item] for item in some]), ITEMS, 5, 2))
    assert [text for _, texts in found for text in texts] == list(known.values())
    assert os.getpid() not in {process for process, _ in found}


@fork
def test_nothing_to_do_and_what_is_no_sequence() -> None:
    assert (
        list(map_chunks(squares, [], 10, 2))
        == list(map_chunks(squares, [], 10))
        == list(map_chunks(squares, iter([]), 10))
        == []
    )
    assert list(map_chunks(squares, iter(ITEMS), 50, 2)) == list(map_chunks(squares, ITEMS, 50, 1))


@fork
@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_the_work_is_raised_as_it_is(processes: int) -> None:
    def refuse(items: Sequence[int]) -> int:
        if 57 in items:
            raise DatasetError("57: expected another")
        return len(items)

    found = map_chunks(refuse, ITEMS, 10, processes)
    assert [next(found) for _ in range(5)] == [10] * 5
    with pytest.raises(DatasetError, match="57: expected another"):
        list(found)
    assert not multiprocessing.active_children()


@fork
def test_a_killed_worker_is_an_error() -> None:
    with pytest.raises(BrokenProcessPool):
        list(map_chunks(lambda _: os._exit(9), ITEMS, 10, 2))


@fork
def test_an_abandoned_map_leaves_no_process_behind() -> None:
    found = map_chunks(squares, ITEMS, 1, 2)
    next(found)
    del found
    assert not multiprocessing.active_children()


@fork
def test_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "true"):
        if value is None:
            monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
        else:
            monkeypatch.setenv("TOKENIZERS_PARALLELISM", value)
        list(map_chunks(squares, ITEMS, 50, 2))
        assert os.environ.get("TOKENIZERS_PARALLELISM") == value


@fork
def test_processes_pay_for_many_items_on_several_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(parallel, "available_cores", lambda: 8)
    assert [worthwhile_processes(items) for items in (0, MIN_ITEMS, 2 * MIN_ITEMS, 5 * MIN_ITEMS, 99 * MIN_ITEMS)] == [
        1,
        1,
        2,
        5,
        8,
    ]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert worthwhile_processes(99 * MIN_ITEMS) == 2, "the others of torchrun have the rest"
    monkeypatch.setattr(parallel, "available_cores", lambda: 1)
    assert worthwhile_processes(99 * MIN_ITEMS) == 1
