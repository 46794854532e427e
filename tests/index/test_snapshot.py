"""Searching an index while it changes: every answer comes from one committed state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from baleen.core.types import Ranking
from baleen.index.index import Index
from baleen.index.protocol import SearchOptions
from index_fakes import WordEncoder, passages_of, random_texts

ENCODER = WordEncoder()
BASE = random_texts(40, seed=1)
EXTRA = {f"x{number}": text for number, text in enumerate(random_texts(24, seed=2).values())}
QUERIES = [ENCODER.encode_query(text) for text in list(EXTRA.values())[:4] + list(BASE.values())[:2]]
OPTIONS = SearchOptions(boosted=[["p1", "x3"]] * len(QUERIES), boost=0.5, exclude=[["p0"]] * len(QUERIES))
SEARCHERS = 4
CHANGES = 20  # at least, however slow the writer is

Answer = tuple[Ranking, ...]


@dataclass
class Race:
    """Searching threads beside one writer; the threads fill `answers`, the writer `states`."""

    index: Index
    searches: int
    answers: set[Answer] = field(default_factory=set)
    states: set[Answer] = field(default_factory=set)
    errors: list[BaseException] = field(default_factory=list)
    changes: int = 0

    def run(self) -> None:
        self.note_state()
        threads = [threading.Thread(target=self.catching(self.search)) for _ in range(SEARCHERS)]
        for thread in threads:
            thread.start()
        self.catching(lambda: self.change(threads))()
        for thread in threads:
            thread.join()

    def catching(self, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self.errors.append(error)
                self.changes = max(self.changes, CHANGES)  # so that the others end

        return run

    def search(self) -> None:
        done = 0
        while done < self.searches // SEARCHERS or self.changes < CHANGES:
            self.answers.add(tuple(self.index.search(QUERIES, 8, OPTIONS)))
            done += len(QUERIES)

    def change(self, searching: list[threading.Thread]) -> None:
        """Add, delete and compact in turn until the searches end."""
        steps = (self.add, self.delete, self.add, self.index.compact)
        while any(thread.is_alive() for thread in searching):
            steps[self.changes % len(steps)]()
            self.changes += 1
            self.note_state()

    def add(self) -> None:
        number = self.changes % 3
        texts = dict(list(EXTRA.items())[8 * number : 8 * number + 8])
        self.index.add(passages_of(texts | {"p2": EXTRA[f"x{self.changes % 24}"]}), ENCODER)

    def delete(self) -> None:
        self.index.delete([f"p{3 + self.changes % 30}", f"x{self.changes % 24}"], missing_ok=True)

    def note_state(self) -> None:
        self.states.add(tuple(self.index.search(QUERIES, 8, OPTIONS)))


def race(root: Path, searches: int) -> Race:
    run = Race(Index.build(root, passages_of(BASE), ENCODER, threads=1), searches)
    run.run()
    return run


def check(run: Race) -> None:
    assert run.errors == []
    assert run.answers <= run.states, "an answer of no committed state"
    assert len(run.answers) > 1, "or nothing changed while anybody searched"


def test_searches_during_changes_see_one_state(tmp_path: Path) -> None:
    check(race(tmp_path / "index", 2400))


@pytest.mark.slow
def test_a_hundred_thousand_searches_during_changes_see_one_state(tmp_path: Path) -> None:
    run = race(tmp_path / "index", 100_000)
    print(f"{run.searches:,} searches, {run.changes:,} changes, {len(run.answers):,} answers, {len(run.errors)} errors")
    check(run)


def test_a_snapshot_survives_every_change(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", passages_of(BASE), ENCODER, threads=1)
    before = index.snapshot
    found, passage, vectors = before.search(QUERIES, 8, OPTIONS), before.passage("p5"), before.vectors("p5")
    index.delete(list(BASE)[1:])
    index.add(passages_of(EXTRA), ENCODER)
    index.compact()
    assert before.search(QUERIES, 8, OPTIONS) == found != index.search(QUERIES, 8, OPTIONS)
    assert (before.passage("p5"), len(before), "p5" in before) == (passage, len(BASE), True)
    assert before.passages(["p5", "x1"]) == [passage, None]
    np.testing.assert_array_equal(before.vectors("p5"), vectors)
    assert "p5" not in index


def test_a_snapshot_can_be_searched_after_its_files_are_removed(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", passages_of(BASE), ENCODER, threads=1)
    expected = index.search(QUERIES, 8)
    before = Index.open(index.root).snapshot
    index.add(passages_of(EXTRA), ENCODER)
    index.compact()
    assert before.search(QUERIES, 8) == expected
    assert list(before.pids()) == list(BASE)


def test_the_digest_names_the_content(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", passages_of(BASE), ENCODER)
    first = index.digest
    assert Index.open(index.root).digest == first
    index.add(passages_of({"x": "whale"}), ENCODER)
    assert index.digest == Index.open(index.root).digest != first


def test_a_change_shares_untouched_segments(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", passages_of(BASE), ENCODER)
    before = index.snapshot
    index.add(passages_of(EXTRA), ENCODER)
    assert index.codec is before.codec
    assert index.segments[0] is before.segments[0]
