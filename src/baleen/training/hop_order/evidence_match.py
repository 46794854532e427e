"""Whether one text speaks of another: answers in passages, titles in claims.  Words are compared, not characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from baleen.core.types import Passage, Span

# Answers that stand in nearly every passage and say nothing of it.
_VERDICTS = frozenset({"", "yes", "no"})

_PARENTHESES = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"\w+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_BETWEEN_WORDS = re.compile(r"\W")
_ASCII_WORDS = bytes(code if _WORD.match(chr(code)) else ord(" ") for code in range(128)) + bytes(128)


def words(text: str) -> tuple[str, ...]:
    """Words without case, accents or punctuation."""
    return tuple(_separated(text).split())


def _separated(text: str) -> str:
    """The words of a text, with spaces for all that is between them."""
    bare = text.casefold()
    if not bare.isascii():
        bare = _NOT_ASCII.sub(_without_accents, unicodedata.normalize("NFKD", bare))
    # Most text is ASCII, which bytes are far faster for.
    return bare.encode().translate(_ASCII_WORDS).decode() if bare.isascii() else _BETWEEN_WORDS.sub(" ", bare)


def _without_accents(run: re.Match[str]) -> str:
    return "".join(c for c in run[0] if not unicodedata.combining(c))


# Words that alone are no sign of a title.
_EMPTY = frozenset(
    words(
        "a an and are as at be by de for from had has he her his in is it its la le of on or she that the their them "
        "they this to was were which who whose with"
    )
)


@lru_cache(1 << 12)
def content_words(text: str) -> frozenset[str]:
    """The different words of a text, but for those that say little alone."""
    return frozenset(words(text)) - _EMPTY


def contains(text: str, phrase: str) -> bool:
    """Whether the words of `phrase` stand in `text` one after the other; no words stand nowhere."""
    return contains_words(words(phrase), join_words(words(text)))


def contains_words(phrase: Sequence[str], text: str) -> bool:
    """The same of words that were found before, `text` being `spaced`."""
    return bool(phrase) and join_words(phrase) in text


def occurrences(text: str, phrase: str) -> list[Span]:
    """Where the words of `phrase` stand in `text` one after the other, as (start, end) of its characters."""
    wanted, placed = words(phrase), _placed_words(text)
    runs = [placed[start : start + len(wanted)] for start in range(len(placed) - len(wanted) + 1) if wanted]
    return [(run[0][1], run[-1][2]) for run in runs if tuple(word for word, _, _ in run) == wanted]


def holds(passage: Passage, answer: str) -> bool:
    """Whether the title or the text of a passage contains an answer."""
    return contains(passage.title, answer) or contains(passage.text, answer)


def is_extractive(answer: str | None) -> bool:
    """Whether an answer is a string that a passage can hold: not absent, and neither yes nor no."""
    return " ".join(words(answer or "")) not in _VERDICTS


def name_words(title: str) -> tuple[str, ...]:
    """The words of the name that a title is: what stands in parentheses tells apart titles and is no part of it."""
    return words(_PARENTHESES.sub(" ", title)) or words(title)


def title_overlap(title: str, text: str) -> float:
    """How much of `title` appears in `text`, from 0 to 1: the longest run of its words, as a share of all of them.

    A run of nothing but words like "of the" does not count.
    """
    name, where = name_words(title), join_words(words(text))
    for length in range(len(name), 0, -1):
        runs = (name[start : start + length] for start in range(len(name) - length + 1))
        if any(join_words(run) in where for run in runs if length == len(name) or not _EMPTY.issuperset(run)):
            return length / len(name)
    return 0.0


def _placed_words(text: str) -> list[tuple[str, int, int]]:
    """Each of `words(text)` with where it starts and ends in `text`, accents included."""
    bare, origins = list[str](), list[int]()
    for place, character in enumerate(text):
        left = [c for c in unicodedata.normalize("NFKD", character.casefold()) if not unicodedata.combining(c)]
        bare += left
        origins += [place] * len(left)
    ends = [*origins[1:], len(text)]  # what was taken away stands behind the character that it belongs to
    found = []
    for match in _WORD.finditer("".join(bare)):
        start, last = origins[match.start()], match.end() - 1
        found.append((match[0], start, max(ends[last], origins[last] + 1)))
    return found


def join_words(found: Sequence[str]) -> str:
    """Words as one string, in which those of a phrase are found whole."""
    return f" {' '.join(found)} "
