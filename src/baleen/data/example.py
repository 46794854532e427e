"""One question or claim of a dataset.

How close an answer is to the gold one, as SQuAD and HotPotQA score it.

Questions and claims with their gold passages, out of the official files of five datasets or a plain JSONL of one's own.

example.py      Example: one question or claim, and what is known of it
reading.py      read_examples: a file into examples
shapes.py       what the records of each dataset look like
fields.py       one key of a record: there, of the right type, or one clear line
gold.py         Catalogue, resolve_gold: titles and ids of gold passages against those of a corpus

examples = read_examples("hover", "hover_train_release_v1.1.json")
examples, report = resolve_gold(examples, Catalogue.of(corpus.read("wiki.jsonl")))
"""

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


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_VERDICTS = frozenset({"yes", "no", "noanswer"})


def normalize_answer(answer: str) -> str:
    """Lower case, without punctuation, articles and superfluous spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> bool:
    return normalize_answer(answer) == normalize_answer(gold)


def token_f1(answer: str, gold: str) -> float:
    """F1 of the words that both have, from 0 to 1; yes and no are right or wrong as a whole."""
    ours, theirs = normalize_answer(answer), normalize_answer(gold)
    if ours == theirs:
        return 1.0
    if not _VERDICTS.isdisjoint({ours, theirs}):
        return 0.0
    common = (Counter(ours.split()) & Counter(theirs.split())).total()
    return 2 * common / (len(ours.split()) + len(theirs.split()))
