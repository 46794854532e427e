"""Recorded outputs of whole runs: traces of the shipped model, an index of fixed vectors, losses of a tiny training.

Remake all of tests/goldens/ with

    python tests/test_goldens.py

and explain every difference in the commit. Orders, ids, labels, names and sizes are compared exactly, scores and losses
within a tolerance that holds between CPUs. Remaking refuses a ranking whose neighbours are too close for that.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from baleen import Baleen, Index, Ranking, Trace
from baleen.hops.demo import SHIPPED, SHIPPED_INDEX, demo_claims
from baleen.index.protocol import SearchOptions
from baleen.training.plan import read_plan
from baleen.training.run import train
from index_fakes import WordEncoder, passages_of, random_texts
from run_fakes import small_toy_data, write_plan

GOLDENS = Path(__file__).parent / "goldens"
MODEL = Path(__file__).parents[1] / "checkpoints" / SHIPPED

PIPELINES = ("condense", "rerank", "hybrid")
CLAIMS, QUESTIONS = ("suit", "hammer"), ("commander",)
RUN = {"hops": 2, "k": 4}
BITS = (2, 4, 16)
SEARCHES = (SearchOptions(), SearchOptions(exact=True), SearchOptions(probes=2, candidates=8))

NEAREST = 0.003  # two scores of one ranking are at least this far apart, so that another CPU does not swap them
SCORE, VECTOR_SCORE, LOSS = {"abs": 0.1}, {"abs": 0.01}, {"rel": 0.02, "abs": 1e-4}

pytestmark = pytest.mark.usefixtures("one_thread")
shipped = pytest.mark.skipif(not MODEL.exists(), reason="the checkpoint was left out of this checkout")


# Recording


def record_traces(pipeline: str) -> dict[str, Any]:
    """Claims and questions over the demonstration corpus, by the shipped model in float32."""
    baleen = Baleen.load(MODEL, MODEL / SHIPPED_INDEX, device="cpu", precision="float32")
    texts = {each["id"]: each["text"] for each in demo_claims()}
    verified = baleen.verify_many([texts[name] for name in CLAIMS], pipeline=pipeline, **RUN)
    answered = baleen.ask_many([texts[name] for name in QUESTIONS], pipeline=pipeline, **RUN)
    return {
        name: trace_record(trace) for name, trace in zip((*CLAIMS, *QUESTIONS), (*verified, *answered), strict=True)
    }


def trace_record(trace: Trace) -> dict[str, Any]:
    return {
        "hops": [
            {
                "ranking": ranking_record(hop.ranking),
                "named": dict(sorted(hop.mentioned.items())),
                "facts": [[fact.pid, fact.sid, fact.hop, fact.score] for fact in hop.facts],
            }
            for hop in trace.hops
        ],
        "doubtful": [[fact.pid, fact.sid, fact.hop, fact.score] for fact in trace.borderline],
        "ranking": ranking_record(trace.ranking()),
        "outcome": None if trace.outcome is None else trace.outcome.to_json(),
        "stopped": trace.stopped,
        "parts": [trace_record(part) for part in trace.parts],
    }


def ranking_record(ranking: Ranking) -> list[list[Any]]:
    return [[hit.pid, hit.score] for hit in ranking]


def record_index(folder: Path, bits: int) -> dict[str, Any]:
    """An index of fixed vectors, changed in every way: its manifest, its files and what it finds."""
    encoder, passages = WordEncoder(), passages_of(random_texts(80, seed=5))
    queries = [encoder.encode_query(passages[row].text, passages[row + 1].text) for row in (5, 40, 78)]
    index = Index.build(folder, passages[:60], encoder, bits=bits, cells=16)
    record: dict[str, Any] = {"built": state_of(index, queries)}
    index.add(passages[60:], encoder)
    index.delete([passages[5].pid, passages[70].pid])
    record["changed"] = state_of(index, queries)
    index.compact()
    return record | {"compacted": state_of(index, queries)}


def state_of(index: Index, queries: Sequence[Any]) -> dict[str, Any]:
    files = sorted(path for path in index.root.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {
        "manifest": without_digests(json.loads((index.root / "manifest.json").read_text("utf-8"))),
        "files": {str(path.relative_to(index.root)): path.stat().st_size for path in files},
        "found": [list(map(ranking_record, index.search(queries, 5, options))) for options in SEARCHES],
    }


def without_digests(value: Any) -> Any:
    """The bytes of a codec differ between CPUs in their last places."""
    if isinstance(value, dict):
        return {key: without_digests(each) for key, each in value.items() if "sha256" not in key}
    return [without_digests(each) for each in value] if isinstance(value, list) else value


def record_losses(folder: Path) -> dict[str, Any]:
    """What each stage of the toy plan logs at every step."""
    small_toy_data(folder)
    steps = ('precision = "float32"\n', 'precision = "float32"\nlog_every = 1\n')
    train(read_plan(write_plan(folder, "plan", steps)), folder / "run", device="cpu")
    return {file.parts[-3]: list(losses(file)) for file in sorted(folder.glob("run/*/training/log.jsonl"))}


def losses(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text("utf-8").splitlines():
        record = json.loads(line)
        yield {key: value for key, value in record.items() if key == "step" or key.endswith("loss")}


# Comparing


def golden(name: str) -> Any:
    return json.loads((GOLDENS / f"{name}.json").read_text("utf-8"))


def assert_same(found: Any, expected: Any, tolerance: dict[str, float], where: str = "") -> None:
    """Everything exactly, and only numbers with a fraction within the tolerance."""
    if isinstance(expected, float) and isinstance(found, float):
        assert found == pytest.approx(expected, **tolerance), where
    elif isinstance(expected, dict) and isinstance(found, dict):
        assert list(found) == list(expected), where
        for key, each in expected.items():
            assert_same(found[key], each, tolerance, f"{where}/{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        assert len(found) == len(expected), where
        for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert_same(ours, theirs, tolerance, f"{where}/{place}")
    else:
        assert found == expected, where


@shipped
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_traces_of_the_shipped_model(pipeline: str) -> None:
    assert_same(record_traces(pipeline), golden(f"traces-{pipeline}"), SCORE)


@pytest.mark.parametrize("bits", BITS)
def test_an_index_of_fixed_vectors(tmp_path: Path, bits: int) -> None:
    assert_same(record_index(tmp_path / "index", bits), golden(f"index-{bits}"), VECTOR_SCORE)


def test_losses_of_a_tiny_training(tmp_path: Path) -> None:
    assert_same(record_losses(tmp_path), golden("losses"), LOSS)


# Remaking


def remake() -> None:
    for pipeline in PIPELINES:
        write(f"traces-{pipeline}", record_traces(pipeline))
    for bits in BITS:
        with tempfile.TemporaryDirectory() as folder:
            write(f"index-{bits}", record_index(Path(folder) / "index", bits))
    with tempfile.TemporaryDirectory() as folder:
        write("losses", record_losses(Path(folder)))


def write(name: str, record: Any) -> None:
    close = list(close_scores(record))
    if close:
        sys.exit(f"{name}: scores closer than {NEAREST}, which another CPU may swap: {close}")
    text = json.dumps(json.loads(json.dumps(record), parse_float=lambda number: round(float(number), 4)), indent=1)
    (GOLDENS / f"{name}.json").write_text(text + "\n", "utf-8")


def close_scores(record: Any) -> Iterator[tuple[Any, Any]]:
    """Neighbours of a ranking, [[id, score], ...], whose scores all but tie."""
    if not isinstance(record, (dict, list)):
        return
    if isinstance(record, list) and record and all(is_hit(each) for each in record):
        yield from (pair for pair in pairwise(record) if abs(pair[0][1] - pair[1][1]) < NEAREST)
        return
    for each in record.values() if isinstance(record, dict) else record:
        yield from close_scores(each)


def is_hit(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], float)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "baleen.models.device.cpu_has_bfloat16", lambda: False
        )  # as in the tests themselves: see conftest.py
        remake()
