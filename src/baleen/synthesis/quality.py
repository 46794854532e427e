"""Checks that a claim reads as complete English and does not reveal what is to be found."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DOUBLED = re.compile(
    r"\b(?:an?|the) (?:an?|the)\b|\b(\w+) \1\b|,,| ,|\.\.|\bof of\b|\b(?:is|was) \w* ?(?:is|was)\b", re.IGNORECASE
)
_DANGLING = re.compile(r"\b(?:he|she|it|they|him|them|this|these|those|former|latter|respectively)\b", re.IGNORECASE)
_RELATIVES = re.compile(r"\b(?:that|who|which)\b")
_NOT_WORD = re.compile(r"[\W_]+")
SHORTEST, LONGEST, MOST_RELATIVES = 5, 55, 5


def reads_well(text: str) -> bool:
    """Check length, doubled words, relative clauses and pronouns without a referent."""
    asked = text.removeprefix("Is it true ")
    if not SHORTEST <= len(text.split()) <= LONGEST or len(_RELATIVES.findall(asked)) > MOST_RELATIVES:
        return False
    return not _DOUBLED.search(asked) and not _DANGLING.search(asked) and text.count('"') % 2 == 0


def names_any(text: str, names: Iterable[str]) -> bool:
    """Whether a text contains one of the names, word for word."""
    searched = f" {_NOT_WORD.sub(' ', text).lower()} "
    return any(f" {_NOT_WORD.sub(' ', name).strip().lower()} " in searched for name in names)


def fingerprint(text: str) -> str:
    """Normalise a text: equal for texts that differ only in case, punctuation and articles."""
    words = _NOT_WORD.sub(" ", text.lower()).split()
    return " ".join(word for word in words if word not in {"a", "an", "the"})
