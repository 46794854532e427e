"""How often an inferred sentence is a gold one, told on passages whose gold sentences are known and hidden for it.

Where a dataset names passages alone, the condenser's second stage and the readers learn from sentences that stage 1 takes
for gold; stage 1 and the retriever's hops from likely ones (likely_sentences.py).  Whether that can be trusted shows where the truth is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from baleen.crossencoder import CrossEncoder
from baleen.datasets import Example
from baleen.training.condenser_examples import Scorer, gold_sids
from baleen.training.likely_sentences import likely_sentences
from baleen.training.reading_scores import inferring
from baleen.training.supervision import SentenceChoice, Step, first_sentences
from baleen.types import Lookup, Passage, Query, Record


@dataclass(frozen=True, slots=True)
class SentenceAgreement(Record):
    """Of gold `passages` with known gold sentences: of how many is the `inferred` sentence gold, a `likely`, the `first`."""

    passages: int = 0
    inferred: int = 0
    likely: int = 0
    first: int = 0


def sentence_agreement(reading: CrossEncoder, steps: Sequence[Step], passages: Lookup) -> SentenceAgreement:
    """Infer the sentences of every gold passage as if none were known, and compare with those that are."""
    known = [step for step in steps if step.state.example.facts]
    return compare(known, inferring(reading, [_hidden(step) for step in known], passages), passages)


def compare(steps: Iterable[Step], scorer: Scorer, passages: Lookup) -> SentenceAgreement:
    """The best sentence by `scorer`, the likeliest and the first, beside the gold ones of each passage that a step found."""
    ways = [scorer_choice(scorer), likely_sentences(passages, most=1), first_sentences(1)]
    found = [_outcome(step.state.example, passages(pid), ways) for step in steps for pid in step.supervised.positives]
    return total(each for each in found if each is not None)


def scorer_choice(scorer: Scorer) -> SentenceChoice:
    """The sentence that stands highest with a scorer."""
    return lambda example, passage: gold_sids(example, Query(example.text), passage, scorer)


def _outcome(example: Example, passage: Passage, ways: Sequence[SentenceChoice]) -> SentenceAgreement | None:
    """Of one passage; None where none of its sentences is known."""
    hidden = replace(example, facts=())
    gold = set(gold_sids(example, Query(example.text), passage))
    if not gold:
        return None
    return SentenceAgreement(1, *(int(not gold.isdisjoint(way(hidden, passage))) for way in ways))


def total(parts: Iterable[SentenceAgreement]) -> SentenceAgreement:
    """What several come to together."""
    counts = [(each.passages, each.inferred, each.likely, each.first) for each in parts]
    return SentenceAgreement(*(sum(column) for column in zip(*counts, strict=True)))


def _hidden(step: Step) -> Step:
    """As of a dataset that names passages alone."""
    return replace(step, state=replace(step.state, example=replace(step.state.example, facts=())))
