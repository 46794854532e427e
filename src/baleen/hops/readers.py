"""Claim and facts -> a verdict or an answer.

verifier = Verifier(CrossEncoder.load("..."))
verifier.read([Query("claim", facts)])[0]                   Verdict("supported", .93, {...})
answerer.read([Query("question", facts)])[0]                Answer("Ivo Brandt", .81, pid, sid)

Both read every fact under its title.  Facts that do not fit into one sequence are left out, lowest scores first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from baleen.core.machine import StageTimer
from baleen.core.types import Answer, Query, Verdict
from baleen.models.cross_encoder import ANSWER_OUTPUTS, CrossEncoder
from baleen.models.markup import fact_text
from baleen.models.pairs import CrossInput, Word

LONGEST_ANSWER = 30  # tokens
STAGE = "read"

_START, _END, _SPAN, _YES, _NO = range(len(ANSWER_OUTPUTS))


class Verifier:
    """Probabilities of the two or three labels that its head was trained on."""

    def __init__(self, reading: CrossEncoder) -> None:
        self.reading, self.labels = reading, reading.outputs("verifier")

    def read(self, queries: Sequence[Query], watch: StageTimer | None = None) -> list[Verdict]:
        rows = [self.reading.inputs.evidence(query)[0].at_cls() for query in queries]
        _count(rows, watch)
        return [self._verdict(_softmax(scores[0])) for scores in self.reading.score("verifier", rows)]

    def _verdict(self, probabilities: npt.NDArray[np.float64]) -> Verdict:
        ranked = sorted(zip(self.labels, probabilities.tolist(), strict=True), key=lambda pair: -pair[1])
        return Verdict(*ranked[0], dict(ranked))


class Answerer:
    """The best span of one fact, or yes, or no; without facts the answer is empty and its score 0."""

    def __init__(self, reading: CrossEncoder) -> None:
        self.reading = reading
        reading.outputs("answerer")

    def read(self, queries: Sequence[Query], watch: StageTimer | None = None) -> list[Answer]:
        inputs = [self.reading.inputs.evidence(query) for query in queries]
        _count([row for row, _ in inputs], watch)
        scores = self.reading.score("answerer", [row for row, _ in inputs])
        return [_answer(query, words, found) for query, (_, words), found in zip(queries, inputs, scores, strict=True)]


def _count(rows: Sequence[CrossInput], watch: StageTimer | None) -> None:
    if watch is not None:
        for number, row in enumerate(rows):
            watch.read(number, STAGE, len(row))


def _answer(query: Query, words: Sequence[Word], scores: npt.NDArray[np.float32]) -> Answer:
    """The answer of `scores` (1 + words, outputs), whose first row is that of [CLS]."""
    if not words:
        return Answer("", 0.0)
    kinds = _softmax(scores[0, [_SPAN, _YES, _NO]])
    if kinds[0] < kinds[1:].max():
        return Answer("yes" if kinds[1] >= kinds[2] else "no", float(kinds[1:].max()))
    first, last, probability = best_span(scores[1:, _START], scores[1:, _END], _owners(query, words))
    fact = query.facts[words[first].fact]
    text = fact_text(fact)[words[first].start : words[last].end]
    return Answer(text.strip(), float(kinds[0]) * probability, fact.pid, fact.sid)


def _owners(query: Query, words: Sequence[Word]) -> list[int]:
    """The part of each word, by number: the title of a fact, or its sentence."""
    sentences = [len(fact_text(fact)) - len(fact.text) for fact in query.facts]  # where each one starts
    return [2 * word.fact + (word.start >= sentences[word.fact]) for word in words]


def best_span(
    starts: npt.NDArray[np.float32], ends: npt.NDArray[np.float32], owners: Sequence[int]
) -> tuple[int, int, float]:
    """The likeliest (first, last) within one part and `LONGEST_ANSWER` words, with its probability among all pairs."""
    count = len(starts)
    pairs = _log_softmax(starts)[:, None] + _log_softmax(ends)[None, :]  # (words, words)
    distance = np.arange(count)[None, :] - np.arange(count)[:, None]
    owner = np.asarray(owners)
    allowed = (distance >= 0) & (distance < LONGEST_ANSWER) & (owner[:, None] == owner[None, :])
    first, last = np.unravel_index(int(np.where(allowed, pairs, -np.inf).argmax()), pairs.shape)
    return int(first), int(last), float(np.exp(pairs[first, last]))


def _log_softmax(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = scores.astype(np.float64) - scores.max()
    logs: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return logs


def _softmax(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return np.exp(_log_softmax(scores))
