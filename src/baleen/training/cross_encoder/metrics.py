"""Metrics of the heads on dev records, which they read as the pipeline does.

    train_heads(..., evaluate=partial(fact_metrics, cross_encoder, dev))
    train_heads(..., evaluate=partial(merge_metrics, {"sentences": ..., "facts": ...}))

Training maximises the `metric` of each result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import and_

from baleen.core.machine import StageTimer
from baleen.core.parallel import chunks
from baleen.core.types import Lookup, Passage
from baleen.data.example import exact_match, token_f1
from baleen.hops.condenser import FACT_STAGE, score_sentences, top_facts
from baleen.hops.readers import Answerer, Verifier
from baleen.hops.reranker import Reranker
from baleen.models.cross_encoder import CrossEncoder
from baleen.training.cross_encoder.condenser_examples import FactExample, RerankExample, SentenceExample
from baleen.training.cross_encoder.reader_examples import AnswerExample, VerdictExample

POOL = 9
_AT_ONCE = 64  # records whose sequences are held at a time

Measured = dict[str, float]
Metrics = Callable[[], Mapping[str, float]]


def sentence_metrics(
    cross_encoder: CrossEncoder, records: Sequence[SentenceExample], passage: Lookup, *, pool: int = POOL
) -> Measured:
    """Among all sentences of the positive and the negatives: the share of records whose `best` sentence is gold, and the
    `recall` of gold sentences in the top `pool`, which is the metric.
    """
    firsts, recalls = [], []
    for some in chunks(records, _AT_ONCE):
        queries, passages = [record.query for record in some], _passages(some, passage)
        scored = score_sentences(cross_encoder, queries, passages, 1, StageTimer(len(some)))
        for record, facts in zip(some, scored, strict=True):
            gold = {(record.positive, sid) for sid in record.sids}
            top = [(fact.pid, fact.sid) for fact in top_facts(facts, pool)]
            firsts.append(top[0] in gold)
            recalls.append(len(gold.intersection(top)) / len(gold))
    return {"metric": _mean(recalls), "recall": _mean(recalls), "best": _mean(firsts)}


def fact_metrics(cross_encoder: CrossEncoder, records: Sequence[FactExample], *, threshold: float = 0.0) -> Measured:
    """Precision, recall and F1 (the metric) of the facts above `threshold`, over all records; and the share of records
    where `exact`ly the gold facts are above it.
    """
    kept, gold, wrong = [], [], set()
    for number, some in enumerate(chunks(records, _AT_ONCE)):
        windows = [
            (place, record, row)
            for place, record in enumerate(some)
            for row in cross_encoder.inputs.facts(record.claim, record.facts)
        ]
        scores = cross_encoder.score(FACT_STAGE, [row for _, _, row in windows])
        for (place, record, row), found in zip(windows, scores, strict=True):
            own, wanted = [bool(score > threshold) for score in found[:, 0]], [record.labels[key] for key in row.keys]
            wrong |= {(number, place)} if own != wanted else set()
            kept += own
            gold += wanted
    right = sum(map(and_, kept, gold))
    return {
        "metric": 2 * right / max(1, sum(kept) + sum(gold)),
        "precision": right / max(1, sum(kept)),
        "recall": right / max(1, sum(gold)),
        "exact": 1 - len(wrong) / max(1, len(records)),
    }


def rerank_metrics(cross_encoder: CrossEncoder, records: Sequence[RerankExample], passage: Lookup) -> Measured:
    """The share of positives that rank above all their negatives."""
    firsts = []
    for some in chunks(records, _AT_ONCE):
        rankings = Reranker(cross_encoder).rank([record.query for record in some], _passages(some, passage))
        firsts += [ranking[0].pid == record.positive for record, ranking in zip(some, rankings, strict=True)]
    return {"metric": _mean(firsts)}


def verdict_metrics(cross_encoder: CrossEncoder, records: Sequence[VerdictExample]) -> Measured:
    verdicts = Verifier(cross_encoder).read([record.query for record in records])
    return {"metric": _mean([verdict.label == record.label for record, verdict in zip(records, verdicts, strict=True)])}


def answer_metrics(cross_encoder: CrossEncoder, records: Sequence[AnswerExample]) -> Measured:
    """Exact match (`em`) and F1 (the metric) of the answers, as in SQuAD."""
    answers = Answerer(cross_encoder).read([record.query for record in records])
    pairs = [(answer.text, record.answer) for record, answer in zip(records, answers, strict=True)]
    return {
        "metric": _mean([token_f1(*pair) for pair in pairs]),
        "em": _mean([exact_match(*pair) for pair in pairs]),
    }


def merge_metrics(metrics: Mapping[str, Metrics]) -> Measured:
    """Metrics of several heads, prefixed with the head; the metric is their mean."""
    found = {head: measure() for head, measure in metrics.items()}
    named = {f"{head}_{name}": value for head, values in found.items() for name, value in values.items()}
    return {"metric": _mean([values["metric"] for values in found.values()]), **named}


def _passages(records: Sequence[SentenceExample] | Sequence[RerankExample], passage: Lookup) -> list[list[Passage]]:
    """Passages of each record, the positive first."""
    return [[passage(pid) for pid in (record.positive, *record.negatives)] for record in records]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


class DevMetrics:
    """The dev metrics of several heads, with the last result kept."""

    def __init__(self, heads: Mapping[str, Metrics]) -> None:
        self._heads = heads
        self._last: dict[str, float] | None = None

    def __call__(self) -> dict[str, float]:
        self._last = merge_metrics(self._heads)
        return self._last

    def of_weights(self, unchanged: bool) -> dict[str, float]:
        """Metrics of the current weights: the last result if the weights are `unchanged`."""
        return self._last if unchanged and self._last is not None else self()
