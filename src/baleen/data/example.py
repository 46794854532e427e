"""Example: one question or claim of a dataset; and how answers are compared, as SQuAD and HotPotQA do."""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import dataclass

from baleen.core.records import Record

SUPPORTED = "supported"
REFUTED = "refuted"
NOT_ENOUGH = "not enough information"
NOT_SUPPORTED = "not supported"
LABELS = (SUPPORTED, REFUTED, NOT_ENOUGH, NOT_SUPPORTED)

BY_TITLE = "title"
BY_ID = "id"
BY_EITHER = "either"


@dataclass(frozen=True, slots=True)
class Example(Record):
    """A question or claim with its gold evidence.

    gold        passages that hold the evidence, in no particular order
    facts       gold sentences as (passage, sid); a gold passage without any has unknown sentences
    order       the order of hops, if the dataset gives one
    named_by    how these three name passages: "title", "id" or "either"; by pid after `resolve_gold`
    label       one of LABELS; HoVer's NOT_SUPPORTED covers refuted and not enough information
    hops        the dataset's number of hops, or else the number of gold passages
    kind        the dataset's own type of question
    """

    qid: str
    text: str
    gold: tuple[str, ...] = ()
    facts: tuple[tuple[str, int], ...] = ()
    label: str | None = None
    answer: str | None = None
    hops: int | None = None
    kind: str | None = None
    order: tuple[str, ...] = ()
    named_by: str = BY_TITLE


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_VERDICTS = frozenset({"yes", "no", "noanswer"})


def normalize_answer(answer: str) -> str:
    """Lower the case; remove punctuation, articles and extra spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> bool:
    """Whether two answers are equal once normalized."""
    return normalize_answer(answer) == normalize_answer(gold)


def token_f1(answer: str, gold: str) -> float:
    """F1 of the shared words, from 0 to 1; "yes" and "no" match exactly or not at all."""
    ours, theirs = normalize_answer(answer), normalize_answer(gold)
    if ours == theirs:
        return 1.0
    if not _VERDICTS.isdisjoint({ours, theirs}):
        return 0.0
    common = (Counter(ours.split()) & Counter(theirs.split())).total()
    return 2 * common / (len(ours.split()) + len(theirs.split()))
