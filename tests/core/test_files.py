"""Files of records: round trips, equal bytes from any process, interrupted writes."""

from __future__ import annotations

import gc
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from baleen.core import parallel
from baleen.core.files import PIECE, read_all_records, read_records, write_each, write_records
from baleen.core.types import Fact, Query

NAMES = ["queries.jsonl", "queries.jsonl.gz", "queries.jsonl.zst"]
MANY = 2 * PIECE + 7


def query(number: int) -> Query:
    return Query(f"Grüße {number}", tuple(Fact(f"p{n}", n, "Title", "Text.", 0.1 * n, 1) for n in range(number % 4)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [0, 1, PIECE, MANY])
def test_records_come_back_as_they_were(tmp_path: Path, name: str, count: int) -> None:
    queries = [query(number) for number in range(count)]
    assert write_records(queries, tmp_path / name) == count
    assert list(read_records(tmp_path / name, Query)) == read_all_records(tmp_path / name, Query) == queries
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_other_programs_read_them_a_line_each(tmp_path: Path) -> None:
    for count in (0, MANY):
        write_records(map(query, range(count)), tmp_path / "a.jsonl.gz")
        lines = gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).decode().splitlines()
        assert [json.loads(line) for line in lines] == [query(number).to_json() for number in range(count)]
    assert "Grüße" in lines[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("name", NAMES)
def test_every_way_of_writing_gives_the_same_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [query(number) for number in range(MANY)]
    files = [tmp_path / way / name for way in ("list", "generator", "made", "forked", "made by forks")]
    for file in files:
        file.parent.mkdir()
    write_records(queries, files[0])
    write_records(iter(queries), files[1])
    assert write_each(query, range(MANY), files[2]) == MANY
    monkeypatch.setattr(parallel, "worthwhile_processes", lambda _: 2)
    assert write_records(queries, files[3]) == write_each(query, range(MANY), files[4]) == MANY
    assert len({file.read_bytes() for file in files}) == 1


@pytest.mark.parametrize("forks", [1, 2])
def test_an_interrupted_file_is_not_written(tmp_path: Path, forks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "worthwhile_processes", lambda _: forks)

    def make(number: int) -> Query:
        if number == MANY - 1:
            raise OSError("the disk is full")
        return query(number)

    (tmp_path / "a.jsonl.gz").write_bytes(b"what was there")
    with pytest.raises(OSError, match="disk is full"):
        write_each(make, range(MANY), tmp_path / "a.jsonl.gz")
    with pytest.raises(OSError, match="disk is full"):
        write_records(map(make, range(MANY)), tmp_path / "a.jsonl.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl.gz"]
    assert (tmp_path / "a.jsonl.gz").read_bytes() == b"what was there"


def test_no_number_that_json_does_not_know_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_records([Fact("p", 0, "t", "s", float("nan"))], tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())


def test_garbage_is_collected_again_after_reading(tmp_path: Path) -> None:
    write_records([query(1)], tmp_path / "a.jsonl")
    during = []

    class Watched(Query):
        @classmethod
        def from_json(cls, _: object) -> Watched:
            during.append(gc.isenabled())
            raise KeyError("text")

    with pytest.raises(KeyError):
        read_all_records(tmp_path / "a.jsonl", Watched)
    assert during == [False]
    assert gc.isenabled()


def test_reading_takes_a_record_at_a_time(tmp_path: Path) -> None:
    write_records(map(query, range(MANY)), tmp_path / "a.jsonl.gz")
    reading: Iterator[Query] = read_records(tmp_path / "a.jsonl.gz", Query)
    assert next(reading) == query(0)
    reading.close()  # type: ignore[attr-defined]
