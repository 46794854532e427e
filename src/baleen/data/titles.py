"""Names of passages, from their titles, and mentions of them in text.

    title_names("Casino Royale (2006 film)")            ("casino royale 2006 film", "casino royale")
    find_mentions("She sang in Casino Royale.", find)   the passages that `find` has for "casino royale"

A name is the casefolded words of a title, with and without its bracket; punctuation and a leading "the" are ignored.
A mention starts with a capitalised word or a digit; the longest one counts, from left to right.  A single word at the
start of a sentence is not a mention, since every such word has a capital.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeVar

MAX_WORDS = 10
MAX_SAME_TITLE = 10  # passages; a name that more of them share is ambiguous
MIN_LETTERS = 3  # letters and digits of a name, without spaces
_WORD = re.compile(r"[^\W_]+")
_BRACKET = re.compile(r"\s*\([^()]*\)\s*$")
_ARTICLE = "the"
_FORM: Literal["NFKC"] = "NFKC"

Found = TypeVar("Found", bound=Sequence[object])


class _Candidate(NamedTuple):
    """A possible name: the words `first` to `end` of a text."""

    name: str
    first: int
    end: int


def title_names(title: str) -> tuple[str, ...]:
    """The names of a passage; none for a title that is too short or only a number."""
    title = unicodedata.normalize(_FORM, title)
    forms = (title, _BRACKET.sub("", title))
    found = (_name([word.casefold() for word in _WORD.findall(form)]) for form in forms)
    return tuple(name for name in dict.fromkeys(found) if _is_name(name))


def find_mentions(
    text: str, find: Callable[[Sequence[str]], Sequence[Found]], starts: Collection[int] = (0,)
) -> Iterator[Found]:
    """Find the passages mentioned in a text, in order; sentences start at the characters `starts`.

    `find` is called once, with all possible names, and returns something empty for each unknown one.
    """
    candidates = list(_candidates(*_normalize(text, starts)))
    known = find([candidate.name for candidate in candidates])
    end = 0
    for candidate, found in zip(candidates, known, strict=True):
        if found and candidate.first >= end:
            end = candidate.end
            yield found


def _candidates(text: str, starts: Collection[int]) -> Iterator[_Candidate]:
    """Possible names from left to right; those that start with the same word, longest first."""
    words = list(_WORD.finditer(text))
    folded = [word[0].casefold() for word in words]
    for first, word in enumerate(words):
        lower = word[0].islower() and word[0].isalpha()  # "20th" has a digit
        if lower or folded[first] == _ARTICLE:
            continue
        for end in range(min(first + MAX_WORDS, len(words)), first, -1):
            name = _name(folded[first:end])
            if _is_name(name) and (end > first + 1 or word.start() not in starts):
                yield _Candidate(name, first, end)


def _name(words: Sequence[str]) -> str:
    return " ".join(words[1:] if len(words) > 1 and words[0] == _ARTICLE else words)


def _normalize(text: str, starts: Collection[int]) -> tuple[str, Collection[int]]:
    """Normalize a text, so that a letter and its accent are one character, and move `starts` with it."""
    if unicodedata.is_normalized(_FORM, text):
        return text, starts
    # Sentence by sentence: normalizing every prefix would be quadratic.
    edges = sorted({0, len(text), *(place for place in starts if 0 < place < len(text))})
    parts = [unicodedata.normalize(_FORM, text[start:end]) for start, end in pairwise(edges)]
    moved = dict(zip(edges, accumulate(map(len, parts), initial=0), strict=True))
    return "".join(parts), {moved[place] for place in starts if place in moved}


def _is_name(name: str) -> bool:
    letters = name.replace(" ", "")
    return len(letters) >= MIN_LETTERS and not letters.isdigit()
