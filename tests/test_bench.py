"""The benchmarks: that what they measure on is repeatable, that what they compare with is right, that all is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from baleen.bench import report
from baleen.bench.assign import reassigned, some_vectors
from baleen.bench.exact import exact_top, recall
from baleen.bench.real import RealVectors
from baleen.bench.search import BenchConfig, growth, run_all, sweep
from baleen.bench.synthetic import CHUNK, SyntheticCorpus
from baleen.errors import ConfigError
from baleen.index import Index
from baleen.index.clustering import Nearest
from baleen.machine import machine
from baleen.scoring import focused_score
from baleen.types import Passage
from baleen.vectors import PassageVectors, QueryVectors
from fakes import CORPUS, tiny_encoder


def test_a_chunk_does_not_depend_on_what_was_made_before():
    size = CHUNK + 50
    straight, backwards = SyntheticCorpus(size, 6, 16), SyntheticCorpus(size, 6, 16)
    chunks = [straight.chunk(0), straight.chunk(1)]
    np.testing.assert_array_equal(backwards.chunk(1), chunks[1])
    np.testing.assert_array_equal(backwards.chunk(0), chunks[0])
    assert [len(chunk) for chunk in chunks] == [CHUNK, 50]
    assert not np.array_equal(chunks[0][:50], chunks[1])


def test_another_seed_makes_another_corpus_with_another_fingerprint():
    first, second = SyntheticCorpus(50, 6, 16), SyntheticCorpus(50, 6, 16, seed=1)
    assert not np.array_equal(first.chunk(0), second.chunk(0))
    assert first.fingerprint == SyntheticCorpus(50, 6, 16).fingerprint != second.fingerprint


def test_vectors_are_of_length_one():
    corpus = SyntheticCorpus(40, 6, 16)
    queries = corpus.queries(3, 5, facts=2)
    rows = [corpus.chunk(0).astype(np.float32).reshape(-1, 16), *(part for q in queries for part in (q.query, q.facts))]
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(rows), axis=1), 1, atol=2e-3)
    assert [(q.query.shape, q.facts.shape) for q in queries] == [((5, 16), (2, 16))] * 3


def test_it_encodes_its_passages_in_any_order_and_streams_them_in_theirs():
    corpus = SyntheticCorpus(CHUNK + 5, 3, 16)
    some = [list(corpus.passages())[row] for row in (2, 1, CHUNK + 4)]
    batches = list(corpus.encode_passages(some))
    assert [passage.pid for batch, _ in batches for passage in batch] == ["2", "1", str(CHUNK + 4)]
    np.testing.assert_array_equal(batches[0][1][1], corpus.chunk(0)[1])
    np.testing.assert_array_equal(batches[1][1][0], corpus.chunk(1)[4])
    assert sum(len(part) for part in corpus.stream()) == len(corpus)


def test_a_query_finds_the_passage_that_it_echoes():
    corpus = SyntheticCorpus(300, 20, 64)
    queries = corpus.queries(10, 32, seed=3)
    targets = np.sort(np.random.Generator(np.random.SFC64((0, 2, 3))).integers(300, size=10))
    assert (exact_top(corpus.stream(), queries, 1, (None, None))[:, 0] == targets).mean() >= 0.9


def ragged(lengths: list[int], dim: int = 8) -> PassageVectors:
    random = np.random.default_rng(0)
    return PassageVectors.of([random.standard_normal((length, dim), np.float32) for length in lengths])


@pytest.mark.parametrize("focus", [(None, None), (3, 1)])
def test_the_exact_reference_equals_a_plain_loop(focus, monkeypatch):
    monkeypatch.setattr("baleen.bench.exact.BLOCK", 4)
    parts = [ragged([3, 1, 5, 2, 4, 4, 1]), ragged([2, 6])]
    random = np.random.default_rng(1)
    queries = [QueryVectors(*(random.standard_normal((n, 8), np.float32) for n in sizes)) for sizes in ((5, 2), (4, 0))]
    passages = [passage for part in parts for passage in part]
    for query, rows in zip(queries, exact_top(parts, queries, 4, focus), strict=True):
        scores = [plain_score(query, passage, focus) for passage in passages]
        assert rows.tolist() == np.argsort(scores)[::-1][:4].tolist()


def plain_score(query: QueryVectors, passage: np.ndarray, focus: tuple[int | None, int | None]) -> float:
    total = 0.0
    for vectors, keep in zip((query.query, query.facts), focus, strict=True):
        matches = sorted((max(float(vector @ token) for token in passage) for vector in vectors), reverse=True)
        total += sum(matches[:keep])
    return total


def test_exact_gives_what_there_is_when_k_is_more():
    query = QueryVectors.without_facts(np.ones((1, 8), np.float32))
    assert exact_top([ragged([1, 1])], [query], 5, (None, None)).shape == (1, 2)


def test_the_plain_loop_agrees_with_the_scoring_module():
    (passage,), query = ragged([5]), np.random.default_rng(2).standard_normal((6, 8), np.float32)
    tensors = torch.from_numpy(query)[None], torch.from_numpy(passage)[None]
    expected = focused_score(tensors[0], None, None, None, tensors[1], None, query_focus=3).item()
    assert plain_score(QueryVectors.without_facts(query), passage, (3, None)) == pytest.approx(expected, abs=1e-5)


def test_recall_is_the_mean_share_of_what_was_expected():
    assert recall([("a", "b"), ("c",), ()], [("b", "a"), ("c", "d"), ("e",)]) == pytest.approx((1 + 0.5 + 0) / 3)


TINY = BenchConfig(sizes=(200,), bits=(2,), queries=4, vectors=8, growth_sizes=(60, 200), threads=1)


def test_a_whole_run_reports_every_field_and_is_drawn_as_markdown():
    result = run_all(TINY)
    (row,) = json.loads(json.dumps(result))["search"]
    assert None not in row.values()
    assert (row["dataset"], row["passages"], row["vectors"], row["bits"]) == ("synthetic-200", 200, 16_000, 2)
    assert row["recall"] > 0.7
    assert 32 < row["bytes_per_vector"] < 128
    assert row["p50_ms"] <= row["p95_ms"]
    assert row["before_mb"] < row["after_mb"]
    drawn = report.markdown(result)
    assert result["machine"]["cpu"] in drawn
    assert "| synthetic-200 | 2 | 200 | 16,000 |" in drawn


def test_a_work_folder_keeps_indexes_and_exact_answers(tmp_path):
    config = BenchConfig(sizes=(60,), bits=(2,), queries=3, vectors=8, k=3, work_dir=str(tmp_path))
    grid = {"probes": (2,), "candidates": (16,), "refined": (8, 32)}
    first = sweep(config, **grid)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    second = sweep(config, **grid)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert [(row.probes, row.candidates, row.refined) for row in second] == [
        (2, 16, 8)
    ]  # no more refined than candidates
    assert first[0].recall == second[0].recall
    assert str(tmp_path) not in json.dumps(report.settings(config))


@pytest.mark.slow
def test_growth_measures_the_first_width_without_exact_answers():
    rows = growth(TINY)
    assert [(row.passages, row.recall, row.exact_p50_ms) for row in rows] == [(60, None, None), (200, None, None)]
    assert "3.3 times as many passages take" in report.markdown({"machine": machine(), "growth": rows_json(rows)})


def test_growth_builds_everything_before_it_measures_anything(tmp_path, monkeypatch):
    seen = []

    def apart(*_):
        seen.append(sorted(path.name for path in tmp_path.rglob("*.json") if path.name == "2-bits.json"))
        raise KeyboardInterrupt

    monkeypatch.setattr("baleen.bench.search.probe_apart", apart)
    with pytest.raises(KeyboardInterrupt):
        growth(replace(TINY, growth_sizes=(20, 40), work_dir=str(tmp_path)))
    assert seen == [["2-bits.json"] * 2]


def test_ways_to_find_cells_are_compared_on_one_codec():
    result = run_all(TINY, ["assign"])
    rows = json.loads(json.dumps(result))["assign"]
    assert [row["way"] for row in rows] == ["all", "nearest groups", "groups in reach"]
    assert (rows[0]["share"], rows[0]["error"]) == (1, 0)
    assert all(row["share"] > 0.9 and -1e-6 < row["error"] < 0.01 and row["recall"] > 0.7 for row in rows)
    assert all(row["cells"] == 1024 and row["cpu_us"] > 0 for row in rows)
    assert "| synthetic-200 | 2 | 1,024 | groups in reach |" in report.markdown(result)


def test_an_index_whose_cells_are_found_in_the_usual_way_is_the_index(tmp_path):
    data = SyntheticCorpus(40, 6, 16)
    index = Index.build(tmp_path / "usual", data.passages(), data)
    again = reassigned(
        data, index, Nearest.of(torch.from_numpy(index.codec.float_centroids[: index.codec.cells])), tmp_path / "again"
    )
    files, others = (sorted(file.sha256 for file in one.manifest.files()) for one in (index, again))
    assert files == others
    flat = reassigned(data, index, lambda points: torch.zeros(len(points), dtype=torch.int64), tmp_path / "flat")
    assert flat.segments[0].cells.tolist() == [0]


def test_the_vectors_that_ways_are_compared_on_come_from_all_over(monkeypatch):
    monkeypatch.setattr("baleen.bench.assign.VECTORS", 12)
    data = SyntheticCorpus(40, 6, 16)
    vectors = some_vectors(data, 240)
    np.testing.assert_array_equal(vectors, data.chunk(0).reshape(-1, 16)[::20].astype(np.float32))
    assert len(some_vectors(SyntheticCorpus(1, 5, 16), 5)) == 5


def rows_json(rows):
    return [row.to_json() for row in rows]


def test_a_table_has_a_line_a_row_and_a_dash_for_what_is_missing():
    rows = [{"a": 1.25, "b": None}, {"a": 1000, "b": 2}]
    drawn = report.table({"A": report.number("a", ",.2f"), "B": report.number("b", "d")}, rows)
    assert drawn.splitlines() == ["| A | B |", "| --- | --- |", "| 1.25 | - |", "| 1,000.00 | 2 |"]


def test_settings_that_cannot_hold_are_refused():
    with pytest.raises(ConfigError, match="give both"):
        BenchConfig(corpus="wiki.jsonl")
    with pytest.raises(ConfigError, match="queries = 0"):
        BenchConfig(queries=0)


def test_real_vectors_are_the_encoders_own(tmp_path):
    encoder = tiny_encoder(tmp_path)
    encoder.save(tmp_path / "checkpoint")
    collection = write_corpus(tmp_path / "whales.jsonl", CORPUS)
    data = RealVectors.encode(collection, tmp_path / "checkpoint", queries=3, limit=5)
    assert (data.name, len(data), data.dim, data.fingerprint) == ("whales", 5, 16, encoder.fingerprint)
    assert len(data.queries(10)) == 3
    ((_, vectors),) = encoder.encode_passages(CORPUS[:5])
    ((batch, stored),) = data.encode_passages(list(data.passages())[2:4])
    assert [passage.pid for passage in batch] == ["p2", "p3"]
    np.testing.assert_allclose(stored[0], vectors[2], atol=0.02)


def write_corpus(path: Path, passages: list[Passage]) -> Path:
    from baleen import corpus

    corpus.write(passages, path)
    return path
