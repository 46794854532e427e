"""The benchmarks: repeatable inputs, a correct reference, complete reports."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import batch
import common
import growth
import search
import verify
from baleen.core.types import Passage
from baleen.core.vectors import PassageVectors, QueryVectors
from baleen.hops.demo import untrained_encoder, write_whole
from baleen.index.index import Index
from baleen.index.protocol import SearchOptions
from baleen.index.scoring import focused_score
from baleen.models.encoder import Encoder
from fakes import CORPUS, bert_folder, tiny_encoder
from workload import CHUNK, RealVectors, SyntheticCorpus, exact_top, recall, synthetic

ROOT = Path(__file__).resolve().parents[2]


def test_a_chunk_does_not_depend_on_earlier_ones():
    size = CHUNK + 50
    straight, backwards = SyntheticCorpus(size, 6, 16), SyntheticCorpus(size, 6, 16)
    chunks = [straight.chunk(0), straight.chunk(1)]
    np.testing.assert_array_equal(backwards.chunk(1), chunks[1])
    np.testing.assert_array_equal(backwards.chunk(0), chunks[0])
    assert [len(chunk) for chunk in chunks] == [CHUNK, 50]
    assert not np.array_equal(chunks[0][:50], chunks[1])


def test_another_seed_gives_another_corpus_and_fingerprint():
    first, second = SyntheticCorpus(50, 6, 16), SyntheticCorpus(50, 6, 16, seed=1)
    assert not np.array_equal(first.chunk(0), second.chunk(0))
    assert first.fingerprint == SyntheticCorpus(50, 6, 16).fingerprint != second.fingerprint


def test_vectors_have_unit_length():
    corpus = SyntheticCorpus(40, 6, 16)
    queries = corpus.queries(3, 5, facts=2)
    rows = [corpus.chunk(0).astype(np.float32).reshape(-1, 16), *(part for q in queries for part in (q.query, q.facts))]
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(rows), axis=1), 1, atol=2e-3)
    assert [(q.query.shape, q.facts.shape) for q in queries] == [((5, 16), (2, 16))] * 3


def test_passages_are_encoded_in_any_order():
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
    monkeypatch.setattr("workload.BLOCK", 4)
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


def test_exact_search_returns_all_if_k_is_larger():
    query = QueryVectors.without_facts(np.ones((1, 8), np.float32))
    assert exact_top([ragged([1, 1])], [query], 5, (None, None)).shape == (1, 2)


def test_the_plain_loop_agrees_with_the_scoring_module():
    (passage,), query = ragged([5]), np.random.default_rng(2).standard_normal((6, 8), np.float32)
    tensors = torch.from_numpy(query)[None], torch.from_numpy(passage)[None]
    expected = focused_score(tensors[0], None, None, None, tensors[1], None, query_focus=3).item()
    assert plain_score(QueryVectors.without_facts(query), passage, (3, None)) == pytest.approx(expected, abs=1e-5)


def test_recall_is_the_mean_share_of_expected_items():
    assert recall([("a", "b"), ("c",), ()], [("b", "a"), ("c", "d"), ("e",)]) == pytest.approx((1 + 0.5 + 0) / 3)


def printed(capsys: Any, main: Callable[[Sequence[str]], None], *arguments: str) -> str:
    """Standard output of a script, called with its arguments."""
    capsys.readouterr()
    main(arguments)
    return str(capsys.readouterr().out)


TINY = ("--queries", "3", "--threads", "1")


def test_search_reports_every_field_as_json_and_as_a_table(tmp_path: Path, capsys: Any) -> None:
    options = ("--size", "200", "--bits", "2", "--work-dir", str(tmp_path), *TINY)
    result = json.loads(printed(capsys, search.main, *options, "--json"))
    (row,) = result["search"]
    assert None not in row.values()
    assert (row["dataset"], row["passages"], row["vectors"], row["bits"]) == ("synthetic-200", 200, 16_000, 2)
    assert row["recall"] > 0.7
    assert 32 < row["bytes_per_vector"] < 128
    assert row["p50_ms"] <= row["p95_ms"]
    assert row["before_mb"] < row["after_mb"]
    assert str(tmp_path) not in json.dumps(result["settings"])
    common.print_result("search", Namespace(json=False), [row], search.COLUMNS)
    drawn = capsys.readouterr().out
    assert result["machine"]["cpu"] in drawn
    assert "| synthetic-200 | 2 | 200 | 16,000 |" in drawn


def test_a_work_folder_keeps_indexes_and_exact_answers(tmp_path: Path) -> None:
    def once() -> tuple[float, list[tuple[str, ...]], dict[Path, int]]:
        with synthetic(60, 3, tmp_path) as work:
            seconds, expected = work.built(2)[1], work.expected(3)
        return seconds, expected, {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    first = once()
    assert [len(pids) for pids in first[1]] == [3] * 13
    assert once() == first
    assert {"2-bits.json", "manifest.json"} <= {path.name for path in first[2]}


def test_search_compares_every_combination_of_settings(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    seen: list[SearchOptions] = []
    monkeypatch.setattr(search, "measure", lambda *_, config, **__: seen.append(config) or {})
    options = ("--size", "20", "--bits", "2", "--probes", "2", "--refined", "8", "32", "--json", *TINY)
    assert json.loads(printed(capsys, search.main, *options))["search"] == [{}, {}]
    assert seen == [SearchOptions(probes=2, refined=8), SearchOptions(probes=2, refined=32)]


@pytest.mark.slow
def test_growth_compares_two_sizes_without_exact_answers(capsys: Any) -> None:
    result = json.loads(printed(capsys, growth.main, "--size", "200", "60", "--json", *TINY))
    found = [(row["passages"], row["recall"], row["exact_p50_ms"]) for row in result["growth"]]
    assert found == [(60, None, None), (200, None, None)]
    assert growth.growth_line(result["growth"]).startswith("3.3 times as many passages take")


def test_growth_builds_all_indexes_before_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def measure(*_: Any, **__: Any) -> None:
        seen.append(sorted(path.name for path in tmp_path.rglob("*.json") if path.name == "2-bits.json"))
        raise KeyboardInterrupt

    monkeypatch.setattr(growth, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        growth.main(("--size", "20", "40", "--work-dir", str(tmp_path), *TINY))
    assert seen == [["2-bits.json"] * 2]


def test_a_table_has_a_line_a_row_and_a_dash_for_a_missing_value() -> None:
    rows = [{"a": 1.25, "b": None}, {"a": 1000, "b": 2}]
    drawn = common.rows_table({"A": common.number("a", ",.2f"), "B": common.number("b", "d")}, rows)
    assert drawn.splitlines() == ["| A | B |", "| --- | --- |", "| 1.25 | - |", "| 1,000.00 | 2 |"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--corpus", "wiki.jsonl"), "give both, or neither"),
        (("--model", "some"), "give both, or neither"),
        (("--queries", "0"), "0 is below 1"),
    ],
)
def test_invalid_settings_are_refused(arguments: tuple[str, ...], part: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        search.main(arguments)
    assert part in capsys.readouterr().err


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, ...]:
    """Options of a model with readers, and of its index."""
    backbone = bert_folder(tmp_path / "backbone", hidden_size=128)
    write_whole(tmp_path / "model", untrained_encoder(backbone, CORPUS), backbone)
    Index.build(tmp_path / "index", CORPUS, Encoder.load(tmp_path / "model", device="cpu"))
    return "--model", str(tmp_path / "model"), "--index", str(tmp_path / "index"), "--device", "cpu"


def test_verify_reports_seconds_by_stage(small: tuple[str, ...], tmp_path: Path, capsys: Any) -> None:
    claims = tmp_path / "claims.jsonl"
    claims.write_text('{"claim": "Whales sing."}\n{"claim": "Vardal is a town."}\n')
    options = (*small, "--file", str(claims), "--hops", "1", "2", "-k", "3")
    rows = json.loads(printed(capsys, verify.main, *options, "--json"))["verify"]
    assert [row["hops"] for row in rows] == [1, 2]
    for row in rows:
        assert set(row["stages"]) == {"encode", "search", "sentences", "facts", "read"}
        assert sum(row["shares"].values()) == pytest.approx(1)
        assert min(row["seconds"], row["batched"], *row["tokens"].values()) > 0
    assert printed(capsys, verify.main, *options).startswith("| hops |")


def test_batch_reports_milliseconds_and_recall(small: tuple[str, ...], tmp_path: Path, capsys: Any) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Who sings?"}\n{"question": "Where is Vardal?"}\n')
    options = (str(questions), *small, "--count", "5", "-k", "3", "--exact", "2", "--threads", "1")
    found = json.loads(printed(capsys, batch.main, *options, "--json"))
    assert (found["queries"], found["passages"], found["k"], found["recall_at_3"]) == (5, len(CORPUS), 3, 1.0)
    assert found["search_ms_per_query"] > 0
    assert "| recall at 3 | 1.0 |" in printed(capsys, batch.main, *options)


@pytest.mark.parametrize("script", ["peers", "focus", "likely_sentences", "sentence_splitters", "synthesis_sample"])
def test_scripts_have_help(script: str) -> None:
    command = [sys.executable, ROOT / "benchmarks" / f"{script}.py", "--help"]
    assert "usage:" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_memory_measuring_processes_do_not_import_torch() -> None:
    code = "import sys, common, search, growth; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", check=True)


def test_peers_follow_the_worker_protocol(tmp_path: Path) -> None:
    corpus = SyntheticCorpus(40, 6, 16)
    (part,) = corpus.stream()
    query = corpus.queries(1, 5)[0].query
    arrays = {"vectors": part.vectors, "lengths": part.lengths, "queries": query, "query_lengths": np.array([5])}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    found = []
    for runner in ("run_exact", "run_baleen"):
        command = [
            sys.executable,
            ROOT / "benchmarks" / "peers" / f"{runner}.py",
            tmp_path,
            tmp_path / runner,
            "4",
            "3",
            "1",
        ]
        done = subprocess.run(
            [*map(str, command)], input="build\nsearch 0\n", capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout.splitlines()[1])["ids"])
    assert found[0][0] == found[1][0]
    assert [len(ids) for ids in found] == [3, 3]


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
    from baleen.data import corpus

    corpus.write_passages(passages, path)
    return path
