"""The batched search in torch against brute force, on a GPU or on torch's CPU device."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from baleen.core.types import Ranking
from baleen.core.vectors import QueryVectors
from baleen.index.cpu.search import Limits, ScoredRows, Searcher
from baleen.index.gpu import DeviceSearcher
from baleen.index.index import Index
from index_fakes import (
    Focus,
    WordEncoder,
    assert_ranks,
    passages_of,
    random_text,
    random_texts,
    search_all,
    search_one,
    slow_scores,
    staged_search,
)

ENCODER = WordEncoder(dim=24)
TEXTS = random_texts(70, seed=3, longest=14)
OPEN = Limits(probes=10**6, candidates=10**6, refined=len(TEXTS) - 1)  # no fewer, or all would be scored outright
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def query_of(claim: int, facts: int, seed: int) -> QueryVectors:
    chance = random.Random(seed)
    return ENCODER.encode_query(random_text(chance, claim), random_text(chance, facts) if facts else "")


@pytest.fixture(scope="module", params=[1, 2, 4, 16])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Two segments, with a passage deleted."""
    folder: Path = tmp_path_factory.mktemp("device")
    passages = passages_of(TEXTS | {"doomed": "stem1-1 stem2-2"})
    built = Index.build(folder / "index", passages[:50], ENCODER, bits=request.param)
    built.add(passages[50:], ENCODER)
    built.delete(["doomed"])
    return built


def find(
    index: Index,
    device: str,
    queries: list[QueryVectors],
    limits: Limits | None,
    focus: Focus,
    k: int = 10,
    hold: bool = False,
) -> list[Ranking]:
    searcher = DeviceSearcher(index.codec, index.segments, device, cache_vectors=hold)
    allowed = [[segment.alive for segment in index.segments]] * len(queries)
    return [index.snapshot.ranking(found, k) for found in searcher.find(queries, k, limits, focus, allowed)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("focus", [(32, 8), (None, None), (3, 1)])
@pytest.mark.parametrize("limits", [OPEN, None], ids=["open", "exact"])
def test_a_mixed_batch_equals_brute_force(index: Index, device: str, limits: Limits | None, focus: Focus) -> None:
    queries = [query_of(9, 3, 0), query_of(40, 0, 1), query_of(1, 12, 2)]
    for query, ranking in zip(queries, find(index, device, queries, limits, focus), strict=True):
        assert_ranks(ranking, slow_scores(index, query, TEXTS, focus), 10)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("limits", [OPEN, None], ids=["open", "exact"])
def test_cached_and_restored_vectors_score_equally(index: Index, device: str, limits: Limits | None) -> None:
    """Up to float16 rounding."""
    queries = [query_of(9, 3, 0), query_of(40, 0, 1), query_of(1, 12, 2)]
    everything = len(TEXTS)
    held, restored = (find(index, device, queries, limits, (32, 8), everything, hold) for hold in (True, False))
    for one, other in zip(held, restored, strict=True):
        scores = {hit.pid: hit.score for hit in other.hits}
        assert set(one.pids) == set(scores)
        assert [hit.score for hit in one.hits] == pytest.approx([scores[pid] for pid in one.pids], abs=2e-3)


def test_caching_vectors_frees_the_residuals(index: Index) -> None:
    searcher = DeviceSearcher(index.codec, index.segments, "cpu", cache_vectors=True)
    assert searcher.vectors is not None
    assert searcher.vectors.dtype == torch.float16
    assert hasattr(searcher, "residuals") == (index.codec.bits == 16)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bits", [1, 2, 4, 16])
@pytest.mark.parametrize("words", [1, 300])
def test_one_passage_of_any_length(tmp_path: Path, device: str, bits: int, words: int) -> None:
    """One word has a residual of 0; of 300 vectors not all can be references."""
    text = random_text(random.Random(5), words)
    index = Index.build(tmp_path / "index", passages_of({"lone": text}), ENCODER, bits=bits)
    query = query_of(9, 3, 0)
    scores = slow_scores(index, query, ["lone"], (32, 8))
    for limits in (None, OPEN):
        assert_ranks(find(index, device, [query], limits, (32, 8))[0], scores, 10)
    assert_ranks(search_one(index, query, 10), scores, 10)
    assert_ranks(staged_search(index, query, 10), scores, 10)


@pytest.mark.parametrize("device", DEVICES)
def test_small_parts_give_the_same_scores(index: Index, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [query_of(9, 3, 0), query_of(40, 0, 1)]
    whole = find(index, device, queries, None, (32, 8))
    monkeypatch.setattr("baleen.index.gpu.PASSAGES_AT_ONCE", 7)
    monkeypatch.setattr("baleen.index.gpu.VECTORS_AT_ONCE", 20)
    for query, before, after in zip(queries, whole, find(index, device, queries, None, (32, 8)), strict=True):
        assert before.pids == after.pids
        assert_ranks(after, slow_scores(index, query, TEXTS, (32, 8)), 10)


@pytest.mark.parametrize("device", DEVICES)
def test_the_batch_size_is_limited_by_postings(index: Index, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, narrow = [query_of(9, 3, seed) for seed in range(5)], Limits(probes=4, candidates=30, refined=15)
    searcher = DeviceSearcher(index.codec, index.segments, device)
    together = find(index, device, queries, narrow, (32, 8))
    assert searcher._batch_size(queries, narrow) >= 5
    lists = 4 * 9 * len(searcher.postings) / searcher.codec.cells
    monkeypatch.setattr("baleen.index.gpu.POSTINGS_AT_ONCE", int(2.5 * lists))
    assert searcher._batch_size(queries, narrow) == 2
    assert [each.pids for each in find(index, device, queries, narrow, (32, 8))] == [each.pids for each in together]
    monkeypatch.setattr("baleen.index.gpu.POSTINGS_AT_ONCE", 1)
    assert searcher._batch_size(queries, narrow) == 1, "one query always goes"


@pytest.mark.parametrize("device", DEVICES)
def test_evidence_equals_the_cpu_kernels(index: Index, device: str) -> None:
    """Narrow limits select the same passages on the device as on the CPU."""
    queries = [query_of(20, 4, seed) for seed in range(6)]
    narrow = Limits(probes=4, candidates=30, refined=15)
    alive = [segment.alive for segment in index.segments]
    on_cpu = [
        index.snapshot.ranking(f, 5) for f in index.snapshot.searcher.find(queries, 5, narrow, (32, 8), [alive] * 6)
    ]
    agreed = [
        len(set(a.pids) & set(b.pids)) / 5
        for a, b in zip(on_cpu, find(index, device, queries, narrow, (32, 8), 5), strict=True)
    ]
    assert np.mean(agreed) >= 0.9, "ties and int16 steps may part them here and there, no more"


@pytest.mark.parametrize("device", DEVICES)
def test_evidence_does_not_depend_on_the_batch(index: Index, device: str) -> None:
    """Each query has its own number of probes in any batch."""
    searcher = DeviceSearcher(index.codec, index.segments, device)
    limits = Limits(probes=None, candidates=30, refined=15)
    queries = [query_of(2, 0, 0), query_of(200, 0, 1)]
    assert len({min(limits.probes_of(len(query.query)), index.codec.cells) for query in queries}) == 2
    alive = [segment.alive for segment in index.segments]
    together = searcher.find(queries, 5, limits, (32, 8), [alive] * 2)
    for query, found in zip(queries, together, strict=True):
        (alone,) = searcher.find([query], 5, limits, (32, 8), [alive])
        assert set(zip(found.segments.tolist(), found.rows.tolist(), strict=True)) == set(
            zip(alone.segments.tolist(), alone.rows.tolist(), strict=True)
        )


@pytest.mark.parametrize("device", DEVICES)
def test_masked_rows_are_never_returned(index: Index, device: str) -> None:
    searcher = DeviceSearcher(index.codec, index.segments, device)
    query = query_of(20, 4, 0)
    first, second = (segment.alive.copy() for segment in index.segments)
    first[:] = False
    (found,) = searcher.find([query], 100, OPEN, (32, 8), [[first, second]])
    assert set(found.segments.tolist()) == {1}
    assert len(found) == int(second.sum())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("limits", [OPEN, None], ids=["open", "exact"])
def test_no_allowed_rows_give_no_hits(index: Index, limits: Limits | None, device: str) -> None:
    searcher = DeviceSearcher(index.codec, index.segments, device)
    alive = [segment.alive for segment in index.segments]
    none = [np.zeros_like(rows) for rows in alive]
    found = searcher.find([query_of(9, 2, 0), query_of(9, 0, 1)], 5, limits, (32, 8), [none, alive])
    assert [len(each) > 0 for each in found] == [False, True]


def by_place(found: ScoredRows) -> dict[tuple[int, int], float]:
    places = zip(found.segments.tolist(), found.rows.tolist(), strict=True)
    return dict(zip(places, found.scores.tolist(), strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("focus", [(32, 8), (None, None), (3, 1)])
def test_score_rows_equals_the_cpu(index: Index, device: str, focus: Focus) -> None:
    queries = [query_of(9, 3, 0), query_of(40, 0, 1), query_of(1, 12, 2)]
    wanted = [ScoredRows.of_rows([[7, 3, 40], [1, 0]]), ScoredRows.of_rows([[], []]), ScoredRows.of_rows([[], [5]])]
    expected = Searcher(index.codec, index.segments, threads=1).score_rows(queries, focus, wanted)
    for hold, atol in ((False, 1e-4), (True, 2e-3)):  # held vectors are float16
        found = DeviceSearcher(index.codec, index.segments, device, cache_vectors=hold).score_rows(
            queries, focus, wanted
        )
        for one, other in zip(map(by_place, found), map(by_place, expected), strict=True):
            assert one == pytest.approx(other, abs=atol)


@pytest.mark.parametrize("device", DEVICES)
def test_boosts_equal_the_cpu(index: Index, device: str) -> None:
    queries, boosted = [query_of(9, 3, 0), query_of(40, 0, 1)], [["p3", "p60", "doomed"], []]
    searched = Index.open(index.root, device=device)
    for hold, atol in ((False, 1e-4), (True, 2e-3)):
        searched.snapshot._searcher = DeviceSearcher(index.codec, index.segments, device, cache_vectors=hold)
        found = search_all(searched, queries, 10, boosted=boosted, boost=2.0)
        for query, own, ranking in zip(queries, boosted, found, strict=True):
            scores = slow_scores(index, query, TEXTS)
            assert_ranks(ranking, {pid: score + 2 * (pid in own) for pid, score in scores.items()}, 10, atol)
