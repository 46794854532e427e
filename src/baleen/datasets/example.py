"""One question or claim of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

from baleen.types import Record

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
    """What is asked, and what a dataset knows of it.

    `gold` names the passages that hold the evidence, in no order that means anything; `facts` are the sentences among
    them, as (passage, sid); `order` is the order of hops where the dataset gives one, else empty.  All three name
    passages as the file does (`named_by` its "title", its "id" or "either"), and by pid once `resolve_gold` has matched
    them to a corpus.  A passage of `gold` without a fact is one whose sentences are not known.

    `label` is one of LABELS: HoVer's NOT_SUPPORTED does not tell refuted from not enough information.  `hops` is what
    the file says or else the number of gold passages; `kind` is the dataset's own type of question.
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
