"""What each precision gains and costs on this machine: seconds, and how far the scores move from those in float32.

Every precision is timed in turn, round after round, so that whatever else the machine does hits all alike; the fastest
round counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from baleen.crossencoder import CrossEncoder
from baleen.devices import Precision
from baleen.encoder import Encoder
from baleen.model_folder import read_model
from baleen.reranker import Reranker
from baleen.types import Passage, Query, Record

PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")
ROUNDS = 3

Scores = npt.NDArray[np.float64]  # (queries, passages)


@dataclass(frozen=True, slots=True)
class PrecisionRow(Record):
    """One model at one precision.

    `seconds` are of all passages, or of all pairs of query and passage; `faster` is float32's seconds over these.  `shift`
    is the mean distance of a score from float32's, in standard deviations of float32's over the passages of a query;
    `same_best` the share of queries whose best passage is float32's.
    """

    model: str
    precision: str
    seconds: float
    tokens_per_second: float
    faster: float
    shift: float
    same_best: float


@dataclass(frozen=True)
class Measured:
    """What a model said, how many tokens it read, and its seconds in each round."""

    scores: Scores
    tokens: int
    seconds: list[float]


def precision_rows(
    model: Path,
    passages: Sequence[Passage],
    queries: Sequence[str],
    precisions: Sequence[Precision] = PRECISIONS,
    rounds: int = ROUNDS,
) -> list[PrecisionRow]:
    """The retriever and, where the model has one, the reranker at each precision, on the CPU, float32 first."""
    ways = dict.fromkeys(("float32", *precisions))
    asked = [Query(text) for text in queries]
    rows = _rows("retriever", {way: _retrieving(model, way, passages, asked) for way in ways}, rounds)
    folder = read_model(model)
    if "reranker" in folder:
        place = folder.folder("reranker")
        rows += _rows("reranker", {way: _reranking(place, way, passages, asked) for way in ways}, rounds)
    return rows


def _retrieving(
    model: Path, precision: Precision, passages: Sequence[Passage], queries: Sequence[Query]
) -> Callable[[], tuple[Scores, int, float]]:
    """Encode the passages, which is timed, and score them against the queries."""
    encoder = Encoder.load(model, device="cpu", precision=precision)
    tokens = sum(map(len, encoder.inputs.passage_ids(passages)))

    def run() -> tuple[Scores, int, float]:
        start = time.perf_counter()
        parts = [vectors for _, found in encoder.encode_passages(passages) for vectors in found]
        seconds = time.perf_counter() - start
        asked = encoder.encode_queries(queries)
        return np.array([[_maxsim(each.query, vectors) for vectors in parts] for each in asked]), tokens, seconds

    return run


def _maxsim(query: npt.NDArray[np.float32], passage: npt.NDArray[np.floating]) -> float:
    return float((query @ passage.astype(np.float32).T).max(axis=1).sum())


def _reranking(
    folder: Path, precision: Precision, passages: Sequence[Passage], queries: Sequence[Query]
) -> Callable[[], tuple[Scores, int, float]]:
    reading = CrossEncoder.load(folder, device="cpu", precision=precision)
    tokens = sum(
        len(row) for query in queries for passage in passages for row in reading.inputs.passage(query, passage)
    )
    places = {passage.pid: number for number, passage in enumerate(passages)}

    def run() -> tuple[Scores, int, float]:
        start = time.perf_counter()
        rankings = Reranker(reading).rank(queries, [passages] * len(queries))
        seconds = time.perf_counter() - start
        scores = np.empty((len(queries), len(passages)))
        for number, ranking in enumerate(rankings):
            for hit in ranking:
                scores[number, places[hit.pid]] = hit.score
        return scores, tokens, seconds

    return run


def _rows(
    model: str, ways: dict[Precision, Callable[[], tuple[Scores, int, float]]], rounds: int
) -> list[PrecisionRow]:
    measured: dict[Precision, Measured] = {}
    for number in range(rounds + 1):  # the first is for warming up
        for precision, run in ways.items():
            scores, tokens, seconds = run()
            found = measured.setdefault(precision, Measured(scores, tokens, []))
            if number:
                found.seconds.append(seconds)
    exact = measured["float32"]
    return [_row(model, precision, found, exact) for precision, found in measured.items()]


def _row(model: str, precision: Precision, found: Measured, exact: Measured) -> PrecisionRow:
    seconds = min(found.seconds)
    spread = np.maximum(exact.scores.std(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return PrecisionRow(
        model,
        precision,
        seconds,
        found.tokens / seconds,
        min(exact.seconds) / seconds,
        float((np.abs(found.scores - exact.scores) / spread).mean()),
        float((found.scores.argmax(axis=1) == exact.scores.argmax(axis=1)).mean()),
    )


def precision_table(rows: Sequence[PrecisionRow]) -> str:
    """The rows as Markdown."""
    head = ["model", "precision", "seconds", "tokens/s", "times as fast", "shift of scores", "same best passage"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        speed = [f"{row.seconds:.2f}", f"{row.tokens_per_second:,.0f}", f"{row.faster:.2f}"]
        lines.append([row.model, row.precision, *speed, f"{row.shift:.3f}", f"{row.same_best:.0%}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sample(passages: int, queries: int) -> tuple[list[Passage], list[str]]:
    """Passages and claims of the demonstration: the gold passages of the claims first."""
    from baleen.embedded import demo_claims, demo_passages

    claims = demo_claims()[:queries]
    gold = {title for claim in claims for title in claim["gold"]}
    found = sorted(demo_passages(), key=lambda passage: passage.title not in gold)
    return list(islice(found, passages)), [claim["text"] for claim in claims]
