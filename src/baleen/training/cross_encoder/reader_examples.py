"""Training examples of the readers: a claim with facts and its label, or a question with facts and its answer.

    verifier    verdict_sources         gold or condensed facts, distractors, and a label
    answerer    answer_sources          the same facts, and the answer: yes, no, or a string in the facts

Evidence is drawn from a source anew each time the source comes up; `draw_fixed` draws once, for dev metrics.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baleen.core.records import Record
from baleen.core.types import Fact, Query
from baleen.data.example import NOT_SUPPORTED, Example
from baleen.hops.condenser import top_facts
from baleen.models.markup import fact_text
from baleen.training.cross_encoder.condenser_examples import ExampleSet, FactsOf
from baleen.training.hop_order.evidence_match import is_extractive, occurrences, words

FEWEST_FACTS, MOST_FACTS = 2, 6

AnswerKind = Literal["span", "yes", "no"]

_ARTICLE = re.compile(r"^\s*(a|an|the)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VerdictExample(Record):
    """A claim with facts, and its label."""

    qid: str
    query: Query
    label: str


@dataclass(frozen=True, slots=True)
class AnswerSpan(Record):
    """An occurrence of an answer: characters `start` to `end` of the text that a reader sees of fact number `fact`."""

    fact: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AnswerExample(Record):
    """A question with facts and its answer; one of kind "span" occurs at each of `spans`."""

    qid: str
    query: Query
    kind: AnswerKind
    answer: str
    spans: tuple[AnswerSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidencePool(Record):
    """Facts that evidence is drawn from: an example's `own`, and `others` as distractors, best first.

    A draw has `least` to `most` facts, if there are as many.  One of several own facts is missing in a share
    `incomplete` of the draws, as a condenser may miss one.
    """

    own: tuple[Fact, ...]
    others: tuple[Fact, ...] = ()
    least: int = FEWEST_FACTS
    most: int = MOST_FACTS
    incomplete: float = 0.0

    def draw(self, rng: np.random.Generator) -> tuple[Fact, ...]:
        """Own facts in order, with some of the best distractors at random places between them."""
        own = self._without_one(rng)
        if not own or not self.others:
            return own
        count = int(rng.integers(max(self.least, len(own)), self.most + 1)) - len(own)
        return _mixed(own, self.others[:count], rng)

    def _without_one(self, rng: np.random.Generator) -> tuple[Fact, ...]:
        if len(self.own) < 2 or not self.incomplete or rng.random() >= self.incomplete:
            return self.own
        gone = int(rng.integers(len(self.own)))
        return self.own[:gone] + self.own[gone + 1 :]


@dataclass(frozen=True, slots=True)
class VerdictSource(Record):
    """A claim with its label, and the pool of its evidence."""

    qid: str
    claim: str
    label: str
    facts: EvidencePool

    def draw(self, rng: np.random.Generator) -> VerdictExample:
        return VerdictExample(self.qid, Query(self.claim, self.facts.draw(rng)), self.label)


@dataclass(frozen=True, slots=True)
class AnswerSource(Record):
    """A question with its answer, and the pool of its evidence, which is drawn complete."""

    qid: str
    question: str
    kind: AnswerKind
    answer: str
    facts: EvidencePool

    def draw(self, rng: np.random.Generator) -> AnswerExample:
        facts = self.facts.draw(rng)
        spans = answer_spans(facts, self.answer) if self.kind == "span" else ()
        return AnswerExample(self.qid, Query(self.question, facts), self.kind, self.answer, spans)


@dataclass(frozen=True)
class EvidencePools:
    """How to make the pool of an example: from its best `facts`, `most` at most, and its best `distractors`.

    Distractors get scores below every other fact, so that they are cut first if not all facts fit.  See `EvidencePool`
    for the other fields.
    """

    facts: FactsOf
    distractors: FactsOf | None = None
    least: int = FEWEST_FACTS
    most: int = MOST_FACTS
    incomplete: float = 0.0

    def pool(self, example: Example) -> EvidencePool:
        given = list(self.facts(example))
        kept = set(top_facts(given, self.most))
        found = self.distractors(example) if self.distractors is not None and given else ()
        others = tuple(_usable_distractors(example, given, found)) if found else ()
        own = tuple(fact for fact in given if fact in kept)
        return EvidencePool(own, others, self.least, self.most, self.incomplete)


def _usable_distractors(example: Example, given: Sequence[Fact], distractors: Sequence[Fact]) -> list[Fact]:
    """Distractors that are neither given facts nor gold, best first, with scores below all given facts."""
    taken = {(fact.pid, fact.sid) for fact in given}.union(example.facts)
    lowest = min(fact.score for fact in given) - 1
    found = {(fact.pid, fact.sid): fact for fact in reversed(top_facts(distractors, len(distractors)))}
    others = top_facts([fact for place, fact in found.items() if place not in taken], len(found))
    return [dataclasses.replace(fact, score=lowest) for fact in others]


def _mixed(own: Sequence[Fact], others: Iterable[Fact], rng: np.random.Generator) -> tuple[Fact, ...]:
    """`own` in order, with `others` at random places between them."""
    mixed = list(own)
    for fact in others:
        mixed.insert(int(rng.integers(len(mixed) + 1)), fact)
    return tuple(mixed)


def verdict_sources(
    examples: Iterable[Example], evidence: EvidencePools, labels: Sequence[str]
) -> ExampleSet[VerdictSource]:
    """Claims for a head with these `labels`; claims without a fitting label or without facts are left out."""
    made = ExampleSet[VerdictSource]()
    for example in examples:
        label, facts = fitting_label(example.label, labels), evidence.pool(example)
        if label is None:
            made.left_out["the head lacks the label"] += 1
        elif not facts.own:
            made.left_out["no facts"] += 1
        else:
            made.records.append(VerdictSource(example.qid, example.text, label, facts))
    return made


def fitting_label(label: str | None, labels: Sequence[str]) -> str | None:
    """A dataset's label as one of the head's `labels`, or None.

    A head of two labels merges all that is not supported; a head of three cannot place a bare "not supported".
    """
    if label is None or label in labels:
        return label
    return NOT_SUPPORTED if NOT_SUPPORTED in labels else None


def answer_sources(examples: Iterable[Example], evidence: EvidencePools) -> ExampleSet[AnswerSource]:
    """Questions whose answer is yes, no, or a string in their own facts."""
    made = ExampleSet[AnswerSource]()
    for example in examples:
        if example.answer is None or not words(example.answer):
            made.left_out["no answer is known"] += 1
            continue
        kind, facts = answer_kind(example.answer), evidence.pool(example)
        if not facts.own:
            made.left_out["no facts"] += 1
        elif kind == "span" and not answer_spans(facts.own, example.answer):
            made.left_out["the answer is in none of the facts"] += 1
        else:
            made.records.append(AnswerSource(example.qid, example.text, kind, example.answer, facts))
    return made


def answer_kind(answer: str) -> AnswerKind:
    if is_extractive(answer):
        return "span"
    return "yes" if words(answer) == ("yes",) else "no"


def answer_spans(facts: Sequence[Fact], answer: str) -> tuple[AnswerSpan, ...]:
    """All occurrences of an answer in the facts; if there are none, those of the answer without its article."""
    for wanted in (answer, _ARTICLE.sub("", answer)):
        found = [
            AnswerSpan(number, start, end)
            for number, fact in enumerate(facts)
            for start, end in occurrences(fact_text(fact), wanted)
        ]
        if found:
            return tuple(found)
    return ()
