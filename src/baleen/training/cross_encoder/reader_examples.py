"""What the readers learn from: facts under a claim with its label, or under a question with where its answer stands.

verifier    verdict_sources         gold or condensed facts, distractors to stand among them, and a label
answerer    answer_sources          likewise, and the answer: yes, no, or a string that the facts hold

What is read of a source is drawn anew whenever it comes up; `settled` of condenser_examples.py draws once, to measure on.
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
from baleen.training.cross_encoder.condenser_examples import ExampleSet, FactsOf, Settled
from baleen.training.hop_order.evidence_match import is_extractive, occurrences, words

FEWEST_FACTS, MOST_FACTS = 2, 6

AnswerKind = Literal["span", "yes", "no"]

_ARTICLE = re.compile(r"^\s*(a|an|the)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VerdictExample(Settled):
    """A claim with facts, and the label that they give it."""

    qid: str
    query: Query
    label: str


@dataclass(frozen=True, slots=True)
class AnswerSpan(Record):
    """Where an answer stands: from `start` to `end` in the text that a reader sees of fact number `fact`."""

    fact: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AnswerExample(Settled):
    """A question with facts and its answer; of kind "span" it stands at every one of `spans`."""

    qid: str
    query: Query
    kind: AnswerKind
    answer: str
    spans: tuple[AnswerSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidencePool(Record):
    """What evidence is drawn from: facts of an example's `own`, and `others` that may stand among them, best first.

    `least` and `most` are how many there are together, as far as there are so many.  Where there are several
    own facts, one is missing in a share `incomplete` of the draws, as a condenser may miss one.
    """

    own: tuple[Fact, ...]
    others: tuple[Fact, ...] = ()
    least: int = FEWEST_FACTS
    most: int = MOST_FACTS
    incomplete: float = 0.0

    def draw(self, rng: np.random.Generator) -> tuple[Fact, ...]:
        """Own facts in their order, some of the best others at random places between them."""
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
    """A claim with its label, and what its evidence is drawn from."""

    qid: str
    claim: str
    label: str
    facts: EvidencePool

    def draw(self, rng: np.random.Generator) -> VerdictExample:
        return VerdictExample(self.qid, Query(self.claim, self.facts.draw(rng)), self.label)


@dataclass(frozen=True, slots=True)
class AnswerSource(Record):
    """A question with its answer, and what its evidence is drawn from, all of whose own facts are always there."""

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
    """Which facts an example is read with: those of `facts`, filled up with `distractors` to a number between two.

    The distractors are the best-scoring ones, and score below every other fact, so that they are the first to go where
    not all fit.  Of too many facts the best-scoring ones stay.  For `least`, `most` and `incomplete` see `Facts`.
    """

    facts: FactsOf
    distractors: FactsOf | None = None
    least: int = FEWEST_FACTS
    most: int = MOST_FACTS
    incomplete: float = 0.0

    def of(self, example: Example) -> EvidencePool:
        given = list(self.facts(example))
        kept = set(top_facts(given, self.most))
        found = self.distractors(example) if self.distractors is not None and given else ()
        others = tuple(_foreign(example, given, found)) if found else ()
        own = tuple(fact for fact in given if fact in kept)
        return EvidencePool(own, others, self.least, self.most, self.incomplete)


def _foreign(example: Example, given: Sequence[Fact], distractors: Sequence[Fact]) -> list[Fact]:
    """Distractors that are neither among the given facts nor gold, best first, with scores below all facts."""
    taken = {(fact.pid, fact.sid) for fact in given}.union(example.facts)
    lowest = min(fact.score for fact in given) - 1
    found = {(fact.pid, fact.sid): fact for fact in reversed(top_facts(distractors, len(distractors)))}
    others = top_facts([fact for place, fact in found.items() if place not in taken], len(found))
    return [dataclasses.replace(fact, score=lowest) for fact in others]


def _mixed(own: Sequence[Fact], others: Iterable[Fact], rng: np.random.Generator) -> tuple[Fact, ...]:
    """`own` in their order, `others` at random places between them."""
    mixed = list(own)
    for fact in others:
        mixed.insert(int(rng.integers(len(mixed) + 1)), fact)
    return tuple(mixed)


def verdict_sources(
    examples: Iterable[Example], evidence: EvidencePools, labels: Sequence[str]
) -> ExampleSet[VerdictSource]:
    """Claims for a head of these `labels`; those that no label fits, or that have no facts, are left out."""
    made = ExampleSet[VerdictSource]()
    for example in examples:
        label, facts = fitting_label(example.label, labels), evidence.of(example)
        if label is None:
            made.left_out["no label that the head has"] += 1
        elif not facts.own:
            made.left_out["no facts"] += 1
        else:
            made.records.append(VerdictSource(example.qid, example.text, label, facts))
    return made


def fitting_label(label: str | None, labels: Sequence[str]) -> str | None:
    """`label` among a head's `labels`: of two, whatever is not supported is one; of three, that alone says too little."""
    if label is None or label in labels:
        return label
    return NOT_SUPPORTED if NOT_SUPPORTED in labels else None


def answer_sources(examples: Iterable[Example], evidence: EvidencePools) -> ExampleSet[AnswerSource]:
    """Questions whose answer is yes, no, or stands in their own facts."""
    made = ExampleSet[AnswerSource]()
    for example in examples:
        if example.answer is None or not words(example.answer):
            made.left_out["no answer is known"] += 1
            continue
        kind, facts = answer_kind(example.answer), evidence.of(example)
        if not facts.own:
            made.left_out["no facts"] += 1
        elif kind == "span" and not answer_spans(facts.own, example.answer):
            made.left_out["the answer stands in none of the facts"] += 1
        else:
            made.records.append(AnswerSource(example.qid, example.text, kind, example.answer, facts))
    return made


def answer_kind(answer: str) -> AnswerKind:
    if is_extractive(answer):
        return "span"
    return "yes" if words(answer) == ("yes",) else "no"


def answer_spans(facts: Sequence[Fact], answer: str) -> tuple[AnswerSpan, ...]:
    """Wherever an answer stands in the facts, or, if nowhere, what is left of it without its article."""
    for wanted in (answer, _ARTICLE.sub("", answer)):
        found = [
            AnswerSpan(number, start, end)
            for number, fact in enumerate(facts)
            for start, end in occurrences(fact_text(fact), wanted)
        ]
        if found:
            return tuple(found)
    return ()
