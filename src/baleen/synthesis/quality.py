"""What a claim must be like to be kept: read as English, whole, and giving nothing away that is to be found."""

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
    """Whether nothing shows that a text was put together: its length, doubled words, pronouns that mean nothing."""
    asked = text.removeprefix("Is it true ")
    if not SHORTEST <= len(text.split()) <= LONGEST or len(_RELATIVES.findall(asked)) > MOST_RELATIVES:
        return False
    return not _DOUBLED.search(asked) and not _DANGLING.search(asked) and text.count('"') % 2 == 0


def names_any(text: str, names: Iterable[str]) -> bool:
    """Whether one of the names stands in a text, word for word."""
    searched = f" {_NOT_WORD.sub(' ', text).lower()} "
    return any(f" {_NOT_WORD.sub(' ', name).strip().lower()} " in searched for name in names)


def fingerprint(text: str) -> str:
    """What two texts have in common that differ in nothing but case, punctuation and articles."""
    words = _NOT_WORD.sub(" ", text.lower()).split()
    return " ".join(word for word in words if word not in {"a", "an", "the"})
