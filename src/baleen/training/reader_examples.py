"""What the readers learn from: facts under a claim with its label, or under a question with where its answer stands.

verifier    verdict_examples        gold or condensed facts, distractors among them, and a label
answerer    answer_examples         likewise, and the answer: yes, no, or a string that the facts hold
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baleen.condenser import best
from baleen.datasets import Example
from baleen.datasets.example import NOT_SUPPORTED
from baleen.markup import fact_text
from baleen.training.condenser_examples import FactsOf, Made, random_of
from baleen.training.matching import is_extractive, occurrences, words
from baleen.types import Fact, Query, Record

FEWEST_FACTS, MOST_FACTS = 2, 6

Kind = Literal["span", "yes", "no"]

_ARTICLE = re.compile(r"^\s*(a|an|the)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VerdictExample(Record):
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
class AnswerExample(Record):
    """A question with facts and its answer; of kind "span" it stands at every one of `spans`."""

    qid: str
    query: Query
    kind: Kind
    answer: str
    spans: tuple[AnswerSpan, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Which facts an example is read with: those of `facts`, filled up with `distractors` to a number between two.

    The distractors are the best-scoring ones, stand at random places, and score below every other fact, so that they
    are the first to go where not all fit.  Of too many facts the best-scoring ones stay.  One of several facts is missing
    in a share `incomplete` of all examples, as a condenser may miss one.
    """

    facts: FactsOf
    distractors: FactsOf | None = None
    seed: int = 0
    least: int = FEWEST_FACTS
    most: int = MOST_FACTS
    incomplete: float = 0.0

    def of(self, example: Example, copy: int = 0) -> tuple[Fact, ...]:
        """The same for the same `copy`."""
        given = list(self.facts(example))
        kept = set(best(given, self.most))
        rng = random_of(self.seed, example.qid, *([copy] if copy else []))
        own = self._without_one([fact for fact in given if fact in kept], rng)
        if not own or self.distractors is None:
            return tuple(own)
        count = int(rng.integers(max(self.least, len(own)), self.most + 1)) - len(own)
        return _mixed(own, _foreign(example, given, self.distractors(example))[:count], rng)

    def _without_one(self, own: list[Fact], rng: np.random.Generator) -> list[Fact]:
        if len(own) < 2 or not self.incomplete or rng.random() >= self.incomplete:
            return own
        gone = int(rng.integers(len(own)))
        return own[:gone] + own[gone + 1 :]


def _foreign(example: Example, given: Sequence[Fact], distractors: Sequence[Fact]) -> list[Fact]:
    """Distractors that are neither among the given facts nor gold, best first, with scores below all facts."""
    taken = {(fact.pid, fact.sid) for fact in given}.union(example.facts)
    lowest = min(fact.score for fact in given) - 1
    found = {(fact.pid, fact.sid): fact for fact in reversed(best(distractors, len(distractors)))}
    others = best([fact for place, fact in found.items() if place not in taken], len(found))
    return [dataclasses.replace(fact, score=lowest) for fact in others]


def _mixed(own: Sequence[Fact], others: Iterable[Fact], rng: np.random.Generator) -> tuple[Fact, ...]:
    """`own` in their order, `others` at random places between them."""
    mixed = list(own)
    for fact in others:
        mixed.insert(int(rng.integers(len(mixed) + 1)), fact)
    return tuple(mixed)


def verdict_examples(
    examples: Iterable[Example], evidence: Evidence, labels: Sequence[str], *, copies: int = 1
) -> Made[VerdictExample]:
    """Claims for a head of these `labels`, with `copies` of the evidence each.

    Those that no label fits, or that have no facts, are left out.
    """
    made = Made[VerdictExample]()
    for example in examples:
        label, read = fitting_label(example.label, labels), [evidence.of(example, copy) for copy in range(copies)]
        if label is None:
            made.left_out["no label that the head has"] += 1
        elif not read[0]:
            made.left_out["no facts"] += 1
        else:
            made.records += [VerdictExample(example.qid, Query(example.text, facts), label) for facts in read]
    return made


def fitting_label(label: str | None, labels: Sequence[str]) -> str | None:
    """`label` among a head's `labels`: of two, whatever is not supported is one; of three, that alone says too little."""
    if label is None or label in labels:
        return label
    return NOT_SUPPORTED if NOT_SUPPORTED in labels else None


def answer_examples(examples: Iterable[Example], evidence: Evidence) -> Made[AnswerExample]:
    """Questions whose answer is yes, no, or stands in their facts."""
    made = Made[AnswerExample]()
    for example in examples:
        if example.answer is None or not words(example.answer):
            made.left_out["no answer is known"] += 1
            continue
        kind, facts = kind_of(example.answer), evidence.of(example)
        spans = answer_spans(facts, example.answer) if kind == "span" else ()
        if not facts:
            made.left_out["no facts"] += 1
        elif kind == "span" and not spans:
            made.left_out["the answer stands in none of the facts"] += 1
        else:
            made.records.append(AnswerExample(example.qid, Query(example.text, facts), kind, example.answer, spans))
    return made


def kind_of(answer: str) -> Kind:
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
