"""What a passage is called, and where a text calls it so.

    names_of("Casino Royale (2006 film)")                       ("casino royale 2006 film", "casino royale")
    mentioned("She sang in Casino Royale.", bearers)            what `bearers` has for "casino royale"

A name is the words of a title, or of what stands before its bracket, in small letters; what stands between words does not
count, nor does "the" before them.  A text calls something by name where a word with a capital or a digit begins a stretch
of its words that is a name; the longest such stretch counts, from left to right.  A single word is no name where a sentence
begins: every word has a capital there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeVar

MOST_WORDS = 10
MAX_SAME_TITLE = 10  # of a name that says which passages are meant
SHORTEST = 3  # letters and digits of a name
_WORD = re.compile(r"[^\W_]+")
_BRACKET = re.compile(r"\s*\([^()]*\)\s*$")
_ARTICLE = "the"
_FORM: Literal["NFKC"] = "NFKC"

Bearers = TypeVar("Bearers", bound=Sequence[object])


class _Stretch(NamedTuple):
    """A name that may stand at the word `first`, and the word after it."""

    name: str
    first: int
    end: int


def title_names(title: str) -> tuple[str, ...]:
    """The names of a passage; none for a title that is too short to tell, or that only says a number."""
    title = unicodedata.normalize(_FORM, title)
    forms = (title, _BRACKET.sub("", title))
    found = (_name([word.casefold() for word in _WORD.findall(form)]) for form in forms)
    return tuple(name for name in dict.fromkeys(found) if _tells(name))


def find_mentions(
    text: str, bearers: Callable[[Sequence[str]], Sequence[Bearers]], begins: Collection[int] = (0,)
) -> Iterator[Bearers]:
    """Whatever bears the names in a text, in their order; sentences begin at the characters `begins`.

    `bearers` is asked once, for all names that may be there, and has something empty for those that nothing bears.
    """
    stretches = list(_stretches(*_normal(text, begins)))
    known = bearers([stretch.name for stretch in stretches])
    end = 0
    for stretch, found in zip(stretches, known, strict=True):
        if found and stretch.first >= end:
            end = stretch.end
            yield found


def _stretches(text: str, begins: Collection[int]) -> Iterator[_Stretch]:
    """All that may be names, from left to right, and the longest first of those that begin with the same word."""
    words = list(_WORD.finditer(text))
    folded = [word[0].casefold() for word in words]
    for first, word in enumerate(words):
        small = word[0].islower() and word[0].isalpha()  # "20th" has a digit
        if small or folded[first] == _ARTICLE:
            continue
        for end in range(min(first + MOST_WORDS, len(words)), first, -1):
            name = _name(folded[first:end])
            if _tells(name) and (end > first + 1 or word.start() not in begins):
                yield _Stretch(name, first, end)


def _name(words: Sequence[str]) -> str:
    return " ".join(words[1:] if len(words) > 1 and words[0] == _ARTICLE else words)


def _normal(text: str, begins: Collection[int]) -> tuple[str, Collection[int]]:
    """With an accent and its letter as one character, which else would part a word; and where sentences begin then."""
    if unicodedata.is_normalized(_FORM, text):
        return text, begins
    # Sentence by sentence: all that stands before each would be read over and over in a long text.
    edges = sorted({0, len(text), *(place for place in begins if 0 < place < len(text))})
    parts = [unicodedata.normalize(_FORM, text[start:end]) for start, end in pairwise(edges)]
    moved = dict(zip(edges, accumulate(map(len, parts), initial=0), strict=True))
    return "".join(parts), {moved[place] for place in begins if place in moved}


def _tells(name: str) -> bool:
    letters = name.replace(" ", "")
    return len(letters) >= SHORTEST and not letters.isdigit()
