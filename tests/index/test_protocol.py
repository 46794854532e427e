"""The interface below the encoder: options as JSON, and shards that answer like one index."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from baleen.core.errors import ConfigError, EncoderMismatchError, QueryError
from baleen.core.types import Hit, Passage, Ranking
from baleen.core.vectors import QueryVectors
from baleen.data.titles import MAX_SAME_TITLE
from baleen.index.index import Index
from baleen.index.protocol import (
    DEFAULT_OPTIONS,
    Focus,
    Searchable,
    SearchOptions,
    Titled,
    check_encoder,
    merge,
    merge_titled,
)
from index_fakes import WordEncoder, random_text, random_texts

ENCODER = WordEncoder(dim=24)
TITLES = ["Vardal", "The Deep Choir", "Vardal (ship)", "Tromsk", "1974"]


# Options


def test_options_round_trip_as_json() -> None:
    options = SearchOptions(
        exclude=[["a", "b"], []], boosted=[{"c"}, ["d"]], boost=1.5, allow={"x"}, where={"year": (1951, 1975), "kind": "town"},
        focus=(4, None), exact=True, probes=3, candidates=50, refined=7,
    )  # fmt: skip
    assert SearchOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
    assert SearchOptions.from_json(json.loads(json.dumps(DEFAULT_OPTIONS.to_json()))) == DEFAULT_OPTIONS


def test_a_predicate_cannot_be_written_as_json() -> None:
    with pytest.raises(QueryError, match=r"where: 'year' is matched by a function, .* list of values"):
        SearchOptions(where={"kind": "town", "year": lambda year: year > 1950}).to_json()


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="wher"):
        SearchOptions(wher={})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"probes": 0}, "probes = 0 should be at least 1"),
        ({"candidates": "40"}, "candidates = '40' should be at least 1"),
        ({"refined": 1.5}, "refined = 1.5 should be at least 1"),
        ({"boost": float("nan")}, "boost = nan should be a finite number"),
        ({"boost": "2"}, "boost = '2' should be a finite number"),
        ({"focus": [32]}, r"focus = \[32\] should be a pair"),
    ],
)
def test_a_value_out_of_range_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchOptions(**given)


def test_a_string_is_refused_as_a_list_of_ids() -> None:
    for options in ({"exclude": "sea"}, {"exclude": ["sea"]}, {"boosted": ["sea"]}, {"allow": "sea"}):
        with pytest.raises(QueryError, match="one string, 'sea', where ids are expected"):
            SearchOptions(**options)


@pytest.mark.parametrize("name", ["exclude", "boosted"])
def test_ids_need_one_collection_per_query(name: str) -> None:
    SearchOptions().check(3)
    SearchOptions(**{name: [["a"], [], ["b"]]}).check(3)
    with pytest.raises(QueryError, match=f"{name} has ids for 2 queries; expected them for each of 3, or none"):
        SearchOptions(**{name: [["a"], []]}).check(3)


def test_options_copy_their_arguments() -> None:
    ids = ["a"]
    options = SearchOptions(exclude=[ids], allow=ids)
    ids.append("b")
    assert list(options.pids) == ["a", "a"]


# Merging


def test_rankings_merge_by_score_then_id() -> None:
    left = Ranking((Hit("b", 2.0), Hit("d", 1.0)))
    right = Ranking((Hit("e", 3.0), Hit("a", 2.0), Hit("c", 1.0)))
    assert merge([left, right], 4).pids == merge([right, left], 4).pids == ("e", "a", "b", "c")
    assert merge([], 4) == Ranking()


def test_titled_passages_merge_up_to_the_limit() -> None:
    half = Titled(tuple(f"l{number}" for number in range(MAX_SAME_TITLE - 1)))
    assert merge_titled([half, Titled(), Titled(("r",))]) == Titled((*half.pids, "r"))
    assert merge_titled([half, Titled(("r", "s"))]) == Titled(too_many=True)
    assert merge_titled([Titled(too_many=True), Titled()]) == Titled(too_many=True)
    assert merge_titled([]) == Titled()


# Shards


class Shards:
    """Several indexes behind one front, each with its own passages."""

    def __init__(self, parts: Sequence[Index]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def fingerprint(self) -> str:
        (fingerprint,) = {part.fingerprint for part in self.parts}
        return fingerprint

    @property
    def digest(self) -> str:
        return "+".join(part.digest for part in self.parts)

    @property
    def focus(self) -> Focus:
        return self.parts[0].focus

    def search(
        self, queries: Sequence[QueryVectors], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Ranking]:
        sent = SearchOptions.from_json(json.loads(json.dumps(options.to_json())))
        found = [part.search(queries, k, sent) for part in self.parts]
        return [merge(own, k) for own in zip(*found, strict=True)]

    def passages(self, pids: Sequence[str]) -> list[Passage | None]:
        columns = zip(*(part.passages(pids) for part in self.parts), strict=True)
        return [next((passage for passage in own if passage is not None), None) for own in columns]

    def titled(self, names: Sequence[str]) -> list[Titled]:
        return [merge_titled(own) for own in zip(*(part.titled(names) for part in self.parts), strict=True)]

    def vectors(self, pid: str) -> npt.NDArray[Any]:
        return next(part for part in self.parts if pid in part).vectors(pid)


def corpus() -> list[Passage]:
    """Texts under few titles, with metadata."""
    texts = random_texts(120, seed=7, longest=14)
    return [
        Passage.from_sentences(
            pid,
            TITLES[number % 5] if number < 42 else f"Page {number}",
            [text],
            {"kind": ["town", "whale"][number % 2]},
        )
        for number, (pid, text) in enumerate(texts.items())
    ]


CORPUS = corpus()


@pytest.fixture(scope="module", params=[2, 16])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.build(tmp_path_factory.mktemp("whole") / "index", CORPUS, ENCODER, bits=request.param, threads=1)


@pytest.fixture(scope="module")
def shards(whole: Index, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """Parts of unequal size with the codec of the whole; the first has two segments and deleted passages."""
    folder = tmp_path_factory.mktemp("shards")
    stale = Passage.from_sentences("p3", "Vardal", ["an older text"])
    first = Index.build(folder / "0", [*CORPUS[:30], stale][-27:], ENCODER, codec=whole.codec, threads=1)
    first.add([*CORPUS[:4], *CORPUS[30:40]], ENCODER)
    second = Index.build(folder / "1", CORPUS[40:], ENCODER, codec=whole.codec, threads=1)
    return Shards([first, second])


QUERIES = [
    ENCODER.encode_query(CORPUS[number].text + " " + random_text(random.Random(number), 5), CORPUS[number + 1].text)
    for number in (0, 3, 41, 77)
]
PIDS = [passage.pid for passage in CORPUS]
OPTIONS: dict[str, SearchOptions] = {
    "none": DEFAULT_OPTIONS,
    "exact": SearchOptions(exact=True),
    "excluded": SearchOptions(exclude=[PIDS[::3], [], ["p0", "unknown"], PIDS[40:]]),
    "boosted": SearchOptions(boosted=[PIDS[::7], ["p41"], [], PIDS[::2]], boost=2.0),
    "boosted and excluded": SearchOptions(boosted=[PIDS[::7]] * 4, boost=9.0, exclude=[PIDS[::14]] * 4),
    "where": SearchOptions(where={"kind": "town"}),
    "allowed": SearchOptions(allow=PIDS[35:50], boosted=[PIDS] * 4, boost=0.5),
    "another focus": SearchOptions(focus=(3, None)),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("k", [1, 10, 200])
def test_shards_with_one_codec_equal_one_index(whole: Index, shards: Shards, options: SearchOptions, k: int) -> None:
    assert shards.search(QUERIES, k, options) == whole.search(QUERIES, k, options)


def test_shards_return_the_passages_of_one_index(whole: Index, shards: Shards) -> None:
    assert isinstance(len(shards), int)
    assert len(shards) == len(whole) == len(CORPUS)
    asked = [*PIDS[::9], "unknown", "p41", "p41"]
    assert shards.passages(asked) == whole.passages(asked)
    assert whole.passages(asked)[-3:] == [None, CORPUS[41], CORPUS[41]]
    names = ["vardal", "deep choir", "page 99", "nothing", "1974", "vardal ship"]
    for one, other in zip_longest(shards.titled(names), whole.titled(names)):
        assert (sorted(one.pids), one.too_many) == (sorted(other.pids), other.too_many)
    assert [found.too_many for found in whole.titled(names)] == [True, False, False, False, False, False]
    for pid in PIDS[::11]:
        np.testing.assert_array_equal(shards.vectors(pid), whole.vectors(pid))


def test_an_encoder_is_checked_against_any_searchable(whole: Index, shards: Shards) -> None:
    searchables: list[Searchable] = [whole, whole.snapshot, shards]
    for each in searchables:
        check_encoder(each, ENCODER.fingerprint)
        with pytest.raises(EncoderMismatchError, match="made by encoder"):
            check_encoder(each, "another")


# A codec that exists


def test_a_given_codec_is_used_unchanged(whole: Index, tmp_path: Path) -> None:
    other = Index.build(tmp_path / "index", CORPUS[:5], ENCODER, codec=whole.codec)
    for role, array in whole.codec.arrays.items():
        np.testing.assert_array_equal(other.codec.arrays[role], array)
    assert (other.manifest.bits, other.manifest.fitted_on) == (whole.manifest.bits, 0)
    assert other.verify() > 0


@pytest.mark.parametrize("fixed", [{"bits": 4}, {"cells": 3}])
def test_a_codec_with_other_bits_or_cells_is_refused(whole: Index, tmp_path: Path, fixed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="leave out bits and cells, or the codec"):
        Index.build(tmp_path / "index", CORPUS[:5], ENCODER, codec=whole.codec, **fixed)
    assert not (tmp_path / "index").exists()


def test_a_codec_of_other_dimensions_is_refused(whole: Index, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vectors of 24 dimensions, but the encoder's have 16"):
        Index.build(tmp_path / "index", CORPUS[:5], WordEncoder(dim=16), codec=whole.codec)
