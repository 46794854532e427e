"""How close an answer is to the gold one, as SQuAD and HotPotQA score it."""

from __future__ import annotations

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_VERDICTS = frozenset({"yes", "no", "noanswer"})


def normalized(answer: str) -> str:
    """Lower case, without punctuation, articles and superfluous spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> bool:
    return normalized(answer) == normalized(gold)


def token_f1(answer: str, gold: str) -> float:
    """F1 of the words that both have, from 0 to 1; yes and no are right or wrong as a whole."""
    ours, theirs = normalized(answer), normalized(gold)
    if ours == theirs:
        return 1.0
    if not _VERDICTS.isdisjoint({ours, theirs}):
        return 0.0
    common = (Counter(ours.split()) & Counter(theirs.split())).total()
    return 2 * common / (len(ours.split()) + len(theirs.split()))
