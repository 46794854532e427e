from __future__ import annotations

import random
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baleen.core.errors import ConfigError, QueryError
from baleen.core.types import Hit, Passage
from baleen.core.vectors import QueryVectors
from baleen.index.cpu.search import Limits, ScoredRows, Searcher
from baleen.index.index import Index
from baleen.index.protocol import SearchOptions
from index_fakes import (
    Focus,
    WordEncoder,
    assert_ranks,
    in_order,
    passages_of,
    random_text,
    random_texts,
    search_all,
    search_one,
    slow_scores,
    staged_search,
)

BITS = (1, 2, 4, 16)
ENCODER = WordEncoder(dim=24)  # not a multiple of 16: the index pads it
TEXTS = random_texts(90, longest=14)
STAGED = SearchOptions(refined=256)  # as usual, but few enough to leave the rest of a small index behind
NARROW = SearchOptions(probes=2, candidates=20, refined=10)
UNHURRIED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

QUERIES: dict[str, tuple[int, int]] = {
    "one vector": (1, 0),
    "fewer vectors than the focus": (9, 3),
    "as many vectors as the focus": (32, 8),
    "more vectors than the focus": (40, 12),
    "more claim vectors than lanes": (70, 5),
    "more fact vectors than lanes": (20, 130),
    "facts that fill their lanes": (64, 64),
}
FOCI: dict[str, Focus] = {
    "the usual focus": (32, 8),
    "no focus": (None, None),
    "a focus on the claim alone": (4, None),
    "a narrow focus": (1, 1),
}


def query_of(claim: int, facts: int, seed: int = 0) -> QueryVectors:
    """Words of the corpus and others, so that some passages match well."""
    chance = random.Random(seed)
    known = " ".join(chance.sample(list(TEXTS.values()), 40)).split()
    chance.shuffle(known)
    words = [chance.choice([known.pop(), random_text(chance, 1)]) for _ in range(claim + facts)]
    return ENCODER.encode_query(" ".join(words[:claim]), " ".join(words[claim:]))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("searched")


@pytest.fixture(scope="session")
def indexes(folder: Path) -> dict[int, Index]:
    """One index for each number of bits, in two segments, with some passages deleted; tests do not change them."""
    built = {}
    for bits in BITS:
        passages = passages_of(TEXTS | {"doomed": "stem1-1 stem2-2", "p80": "an older text"})
        index = Index.build(folder / str(bits), passages[:85], ENCODER, bits=bits, threads=1)
        index.add([*passages[85:], *passages_of({"p80": TEXTS["p80"]})], ENCODER)
        index.delete(["doomed"])
        built[bits] = index
    return built


@pytest.fixture(scope="session")
def index(indexes: dict[int, Index]) -> Index:
    return indexes[2]


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("focus", FOCI.values(), ids=FOCI.keys())
@pytest.mark.parametrize("sizes", QUERIES.values(), ids=QUERIES.keys())
def test_search_with_all_cells_equals_brute_force(
    indexes: dict[int, Index], bits: int, sizes: tuple[int, int], focus: Focus
) -> None:
    index, query = indexes[bits], query_of(*sizes)
    scores = slow_scores(index, query, TEXTS, focus)
    assert_ranks(staged_search(index, query, 10, focus), scores, 10)
    assert_ranks(search_one(index, query, 10, focus=focus, exact=True), scores, 10)


def test_the_focus_defaults_to_that_of_the_index(index: Index) -> None:
    query = query_of(40, 12)
    assert (
        search_one(index, query)
        == search_one(index, query, focus=(32, 8))
        != search_one(index, query, focus=(None, None))
    )


def test_a_small_index_is_refined_in_full(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    query = query_of(20, 5)
    assert len(index) <= Limits.of(SearchOptions(), 10).refined
    for stage in ("gather", "prune"):
        monkeypatch.setattr(f"baleen.index.cpu.search.Searcher.{stage}", None)
    assert search_one(index, query) == search_one(index, query, exact=True)


def test_given_limits_override_the_defaults() -> None:
    assert Limits.of(SearchOptions(candidates=500), 10) == (None, 500, 500)
    assert Limits.of(SearchOptions(refined=500), 10) == (None, 32_768, 500)
    assert Limits.of(SearchOptions(), 1000) == (None, 160_000, 40_000)
    assert Limits.of(SearchOptions(probes=2, candidates=1, refined=1), 10) == (2, 20, 20), "enough to return ten"


def test_short_queries_probe_more_cells_per_vector() -> None:
    limits = Limits.of(SearchOptions(), 10)
    assert [limits.probes_of(vectors) for vectors in (1, 16, 22, 64, 500)] == [64, 64, 46, 16, 16]
    assert Limits.of(SearchOptions(probes=3), 10).probes_of(22) == 3


@pytest.mark.parametrize("bits", BITS)
def test_scores_do_not_depend_on_the_search_options(indexes: dict[int, Index], bits: int) -> None:
    query = query_of(20, 5)
    scores = {hit.pid: hit.score for hit in search_one(indexes[bits], query, 90, exact=True)}
    ranking = search_one(indexes[bits], query, 4, base=NARROW)
    assert len(ranking) == 4
    assert [hit.score for hit in ranking] == [scores[pid] for pid in ranking.pids]
    assert in_order(ranking.hits)


@pytest.mark.parametrize("k", [1, 7, 89, 90, 91, 5000])
def test_k_passages_or_all_are_returned(index: Index, k: int) -> None:
    query = query_of(12, 0)
    scores = slow_scores(index, query, TEXTS)
    for exact in (True, False):
        assert_ranks(search_one(index, query, k, exact=exact), scores, k)


@pytest.mark.parametrize("config", [NARROW, SearchOptions(probes=1, candidates=1, refined=1)])
def test_too_few_probed_passages_fall_back_to_all(index: Index, config: SearchOptions) -> None:
    for k in (1, 10, 40, 90):
        assert len(search_one(index, query_of(1, 0), k, base=config)) == k


# Ties


def test_ties_are_ordered_by_id(tmp_path: Path) -> None:
    texts = {f"twin {letter}": "whale salt sea" for letter in "dbface"} | {"best": "whale song", "last": "oak"}
    query = ENCODER.encode_query("whale song")
    for bits in (2, 16):
        index = Index.build(tmp_path / str(bits), passages_of(texts), ENCODER, bits=bits)
        for ranking in (search_one(index, query), staged_search(index, query, 8)):
            assert ranking.pids == ("best", *(f"twin {letter}" for letter in "abcdef"), "last")
            assert len({hit.score for hit in ranking[1:7]}) == 1
        assert search_one(index, query, 3).pids == ("best", "twin a", "twin b"), "ids decide who is left out, too"


# Filters


@pytest.fixture(scope="session")
def catalogue(folder: Path) -> tuple[Index, dict[str, Passage]]:
    """Passages with metadata, some without; two segments, the second of which lacks a key."""
    chance = random.Random(3)
    kinds = ["town", "whale", None, "opera"]
    passages = {}
    for number in range(60):
        metadata: dict[str, object] = {"kind": kinds[number % 4]} if number % 5 else {}
        if number < 40:
            metadata |= {"year": 1950 + number, "tags": ["even"] if number % 2 == 0 else []}
        passages[f"c{number}"] = Passage.from_sentences(f"c{number}", "", [random_text(chance, 6)], metadata)
    index = Index.build(folder / "catalogue", list(passages.values())[:40], ENCODER, threads=1)
    index.add(list(passages.values())[40:], ENCODER)
    return index, passages


Filter = Callable[[Passage], bool]
FILTERS: dict[str, tuple[dict[str, object], Filter]] = {
    "a value": ({"kind": "whale"}, lambda p: p.metadata.get("kind") == "whale"),
    "one of some values": ({"kind": ["whale", "town"]}, lambda p: p.metadata.get("kind") in ("whale", "town")),
    "one of a set": ({"year": {1951, 1975}}, lambda p: p.metadata.get("year") in (1951, 1975)),
    "a predicate": ({"year": lambda year: year > 1970}, lambda p: p.metadata.get("year", 0) > 1970),
    "two keys": ({"kind": "town", "year": lambda year: year < 1960},
                 lambda p: p.metadata.get("kind") == "town" and p.metadata.get("year", 9999) < 1960),
    "a missing value": ({"kind": None}, lambda p: p.metadata.get("kind") is None),
    "a key that no passage has": ({"colour": "blue"}, lambda _: False),
    "a value that no passage has": ({"kind": "fish"}, lambda _: False),
    "a list as the value's test": ({"tags": lambda tags: "even" in tags}, lambda p: "even" in p.metadata.get("tags", [])),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("config", [None, NARROW])
def test_where_filters_by_metadata(
    catalogue: tuple[Index, dict[str, Passage]], name: str, config: SearchOptions | None
) -> None:
    (index, passages), (where, fits) = catalogue, FILTERS[name]
    query = query_of(8, 2)
    fitting = [pid for pid, passage in passages.items() if fits(passage)]
    assert_ranks(search_one(index, query, 60, where=where, base=config), slow_scores(index, query, fitting), 60)


def test_where_accepts_list_values_in_lists(catalogue: tuple[Index, dict[str, Passage]]) -> None:
    assert len(search_one(catalogue[0], query_of(3, 0), where={"tags": {"even"}})) == 0


@pytest.mark.parametrize("config", [None, NARROW])
def test_excluded_passages_are_replaced_by_others(index: Index, config: SearchOptions | None) -> None:
    query = query_of(12, 4)
    out = {*search_one(index, query, 5, exact=True).pids, "never heard of"}
    ranking = search_one(index, query, 80, exclude=out, base=config)
    assert_ranks(ranking, slow_scores(index, query, TEXTS.keys() - out), 80)


@pytest.mark.parametrize("config", [None, NARROW])
def test_only_allowed_passages_are_returned(index: Index, config: SearchOptions | None) -> None:
    query = query_of(12, 4)
    allowed = [*list(TEXTS)[10:50], "never heard of", "doomed"]
    expected = slow_scores(index, query, allowed[:40])
    assert_ranks(search_one(index, query, 40, allow=allowed, base=config), expected, 40)
    assert len(search_one(index, query, allow=[], base=config)) == 0
    assert len(search_one(index, query, allow=["doomed"], base=config)) == 0


@pytest.mark.parametrize("config", [None, NARROW])
def test_filters_combine(catalogue: tuple[Index, dict[str, Passage]], config: SearchOptions | None) -> None:
    index, passages = catalogue
    query = query_of(6, 1)
    allow, exclude = [f"c{n}" for n in range(50)], [f"c{n}" for n in range(20)]
    left = [pid for pid in allow if pid not in exclude and passages[pid].metadata.get("kind") in ("town", "whale")]
    ranking = search_one(
        index, query, len(left), allow=allow, exclude=exclude, where={"kind": ["town", "whale"]}, base=config
    )
    assert_ranks(ranking, slow_scores(index, query, left), len(left))


@pytest.mark.parametrize("config", [None, NARROW])
def test_unknown_exclusions_are_ignored(index: Index, config: SearchOptions | None) -> None:
    ranking = search_one(index, query_of(1, 0), 30, exclude=[f"unknown {n}" for n in range(200)], base=config)
    assert len(ranking) == 30


def test_excluding_everything_gives_no_hits(index: Index) -> None:
    assert len(search_one(index, query_of(3, 0), exclude=list(TEXTS), base=NARROW)) == 0


# Passages that are boosted

BOOSTED = [f"p{number}" for number in range(0, 90, 7)]


def with_boost(scores: dict[str, float], boosted: Collection[str], boost: float) -> dict[str, float]:
    return {pid: score + boost * (pid in boosted) for pid, score in scores.items()}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("exact", [True, False])
def test_boosts_are_added_to_scores(indexes: dict[int, Index], bits: int, exact: bool) -> None:
    index = indexes[bits]
    queries = [query_of(12, 4, seed) for seed in range(3)]
    boosted = [BOOSTED, [], ["p3", "never heard of", "doomed", "p80"]]
    for boost in (0.25, 2, 100.0):
        found = search_all(index, queries, 10, exact=exact, boosted=boosted, boost=boost)
        for query, own, ranking in zip(queries, boosted, found, strict=True):
            assert_ranks(ranking, with_boost(slow_scores(index, query, TEXTS), own, boost), 10)


@UNHURRIED
@given(
    boosted=st.lists(st.sampled_from([*TEXTS, "doomed", "never heard of"])),
    boost=st.floats(0, 50),
    k=st.integers(1, 100),
    seed=st.integers(0, 3),
)
def test_random_boosts_equal_brute_force(index: Index, boosted: list[str], boost: float, k: int, seed: int) -> None:
    query = query_of(12, 4, seed)
    (ranking,) = search_all(index, [query], k, boosted=[boosted], boost=boost)
    assert_ranks(ranking, with_boost(slow_scores(index, query, TEXTS), boosted, boost), k)


@pytest.mark.parametrize("bits", BITS)
def test_boosted_passages_outside_the_probed_cells_are_scored(indexes: dict[int, Index], bits: int) -> None:
    """A narrow search does not find it; the passages that it does find stay."""
    index, query = indexes[bits], query_of(20, 5)
    everywhere = {hit.pid: hit.score for hit in search_one(index, query, 90, exact=True)}
    last = min(everywhere, key=lambda pid: everywhere[pid])
    plain = search_one(index, query, 4, base=NARROW)
    (ranking,) = search_all(index, [query], 4, base=NARROW, boosted=[[last, plain.pids[1]]], boost=100.0)
    assert set(ranking.pids[:2]) == {last, plain.pids[1]}
    assert [hit.score for hit in ranking.hits[:2]] == [
        float(np.float32(everywhere[pid]) + 100) for pid in ranking.pids[:2]
    ]
    assert ranking.hits[2:] == (plain.hits[0], plain.hits[2])


def test_no_boost_changes_nothing(index: Index) -> None:
    queries = [query_of(12, 4, seed) for seed in range(3)]
    for config in (None, NARROW):
        plain = search_all(index, queries, 7, base=config)
        assert search_all(index, queries, 7, base=config, boosted=[BOOSTED] * 3, boost=0.0) == plain
        assert search_all(index, queries, 7, base=config, boosted=[[]] * 3, boost=5.0) == plain
        assert search_all(index, queries, 7, base=config, boost=5.0) == plain
    assert search_all(index, [], boosted=[], boost=5.0) == []


def test_a_passage_boosted_twice_is_returned_once(index: Index) -> None:
    query = query_of(12, 4)
    once, twice = (search_all(index, [query], 5, boosted=[boosted], boost=9.0) for boosted in (["p3"], ["p3", "p3"]))
    assert twice == once


@pytest.mark.parametrize("config", [None, NARROW])
def test_filters_apply_to_boosted_passages(
    catalogue: tuple[Index, dict[str, Passage]], config: SearchOptions | None
) -> None:
    index, passages = catalogue
    query, boosted = query_of(6, 1), [f"c{number}" for number in range(0, 60, 2)]
    allow, exclude = [f"c{n}" for n in range(50)], [f"c{n}" for n in range(20)]
    towns = [pid for pid, passage in passages.items() if passage.metadata.get("kind") == "town"]
    filters: list[tuple[dict[str, Any], set[str]]] = [
        ({"allow": allow}, set(allow)),
        ({"exclude": [exclude]}, passages.keys() - exclude),
        ({"where": {"kind": "town"}}, set(towns)),
        ({"allow": allow, "exclude": [exclude], "where": {"kind": "town"}}, {*allow} & {*towns} - {*exclude}),
        ({"allow": []}, set()),
    ]
    for options, left in filters:
        (ranking,) = search_all(index, [query], 60, boosted=[boosted], boost=5.0, base=config, **options)
        assert_ranks(ranking, with_boost(slow_scores(index, query, left), boosted, 5.0), 60)


def test_boosts_and_exclusions_are_per_query(index: Index) -> None:
    queries = [query_of(12, 4, seed) for seed in range(3)]
    boosted, exclude = [["p1", "p2"], [], BOOSTED], [["p2"], ["p5"], BOOSTED[:3]]
    alone = [
        search_all(index, [query], 6, boosted=[own], exclude=[without], boost=3.0)[0]
        for query, own, without in zip(queries, boosted, exclude, strict=True)
    ]
    assert search_all(index, queries, 6, boosted=boosted, exclude=exclude, boost=3.0) == alone


def test_score_rows_equals_search(index: Index) -> None:
    query, searcher = query_of(12, 4), Searcher(index.codec, index.segments, threads=1)
    wanted, nothing = ScoredRows.of_rows([[7, 3], [1]]), ScoredRows.of_rows([[], []])
    found, none = searcher.score_rows([query, query], index.focus, [wanted, nothing])
    scores = {hit.pid: hit.score for hit in search_one(index, query, 90, exact=True)}
    pids = [index.segments[number].store.pid(row) for number, row in ((0, 7), (0, 3), (1, 1))]
    assert sorted(index.snapshot.ranking(found, 9), key=lambda hit: pids.index(hit.pid)) == [
        Hit(pid, scores[pid]) for pid in pids
    ]
    assert len(none) == 0


def test_with_boosted_replaces_the_same_rows() -> None:
    found = ScoredRows.join(
        [(np.array([4, 2]), np.array([1.0, 2.0], np.float32)), (np.array([2]), np.array([3.0], np.float32))]
    )
    raised = found.with_boosted(ScoredRows(np.array([1, 0]), np.array([2, 7]), np.array([3.0, 0.5], np.float32)), 10)
    places = zip(raised.segments.tolist(), raised.rows.tolist(), raised.scores.tolist(), strict=True)
    assert sorted(places) == [(0, 2, 2.0), (0, 4, 1.0), (0, 7, 10.5), (1, 2, 13.0)]
    assert raised.scores.dtype == np.float32


# Refusals


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(index: Index, k: int) -> None:
    with pytest.raises(QueryError, match=f"k = {k} should be at least 1"):
        search_one(index, query_of(3, 0), k)


def test_a_query_of_other_dimensions_is_refused(index: Index) -> None:
    with pytest.raises(QueryError, match=r"query vectors of 16 dimensions, but .* holds 24"):
        search_one(index, WordEncoder(dim=16).encode_query("whale"))


def test_a_query_without_vectors_is_refused(index: Index) -> None:
    with pytest.raises(QueryError, match="no vectors"):
        search_one(index, ENCODER.encode_query("", "facts alone"))


@pytest.mark.parametrize("setting", ["probes", "candidates", "refined"])
def test_limits_below_one_are_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} = 0 should be at least 1"):
        SearchOptions(**{setting: 0})


def test_a_zero_query_is_answered(index: Index) -> None:
    query = QueryVectors.without_facts(np.zeros((3, 24), np.float32))
    for ranking in (
        search_one(index, query, 5),
        search_one(index, query, 5, base=NARROW),
        staged_search(index, query, 5),
    ):
        assert [hit.score for hit in ranking] == [0.0] * 5


# Many passages, many threads


@pytest.fixture(scope="session")
def crowd(folder: Path) -> tuple[Path, WordEncoder]:
    """2,000 passages of 12 vectors around 100 stems: overlapping clusters."""
    encoder = WordEncoder(dim=32, batch=200)
    chance = random.Random(11)
    texts = {f"p{number}": random_text(chance, 12, stems=100) for number in range(2000)}
    Index.build(folder / "crowd", passages_of(texts), encoder)
    return folder / "crowd", encoder


@pytest.fixture(scope="session")
def crowd_queries(crowd: tuple[Path, WordEncoder]) -> list[QueryVectors]:
    """Some words of a passage, some of another, and a few of none."""
    root, encoder = crowd
    chance, index = random.Random(12), Index.open(root)
    queries = []
    for _ in range(24):
        first, second = (index.passage(f"p{chance.randrange(2000)}").text.split() for _ in range(2))
        queries.append(encoder.encode_query(" ".join([*first[:8], *second[:4], random_text(chance, 4, stems=100)])))
    return queries


def test_the_default_search_has_a_recall_of_nine_tenths(
    crowd: tuple[Path, WordEncoder], crowd_queries: list[QueryVectors]
) -> None:
    index = Index.open(crowd[0])
    found = [
        len({*search_one(index, query, base=STAGED).pids} & {*search_one(index, query, exact=True).pids}) / 10
        for query in crowd_queries
    ]
    assert np.mean(found) >= 0.9


def test_wider_limits_lose_nothing(crowd: tuple[Path, WordEncoder], crowd_queries: list[QueryVectors]) -> None:
    index = Index.open(crowd[0])
    wide = SearchOptions(probes=10**6, candidates=10**6, refined=1999)
    for query in crowd_queries[:6]:
        assert search_one(index, query, base=wide) == search_one(index, query, exact=True)


def test_rankings_do_not_depend_on_the_number_of_threads(
    crowd: tuple[Path, WordEncoder], crowd_queries: list[QueryVectors]
) -> None:
    alone, together = (Index.open(crowd[0], threads=threads) for threads in (1, 3))
    for query in crowd_queries[:8]:
        assert search_one(alone, query, base=STAGED) == search_one(together, query, base=STAGED)
        assert search_one(alone, query, exact=True) == search_one(together, query, exact=True)


def test_concurrent_searches_are_independent(
    crowd: tuple[Path, WordEncoder], crowd_queries: list[QueryVectors]
) -> None:
    index = Index.open(crowd[0], threads=2)
    search = partial(search_one, index, base=STAGED)
    one_by_one = [search(query) for query in crowd_queries]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(search, crowd_queries)) == one_by_one


def test_a_search_does_not_depend_on_earlier_ones(
    crowd: tuple[Path, WordEncoder], crowd_queries: list[QueryVectors]
) -> None:
    index = Index.open(crowd[0], threads=1)
    first = [search_one(index, query, base=NARROW) for query in crowd_queries]
    assert [search_one(index, query, base=NARROW) for query in reversed(crowd_queries)] == first[::-1]
    assert search_one(Index.open(crowd[0], threads=1), crowd_queries[3], base=NARROW) == first[3]


def test_a_batch_equals_single_queries(crowd: tuple[Path, WordEncoder], crowd_queries: list[QueryVectors]) -> None:
    index = Index.open(crowd[0])
    out = [[f"p{number}"] for number in range(len(crowd_queries))]
    each = [
        search_one(index, query, 7, exclude=ids, base=STAGED) for query, ids in zip(crowd_queries, out, strict=True)
    ]
    assert search_all(index, crowd_queries, 7, exclude=out, base=STAGED) == each
    assert search_all(index, []) == []
