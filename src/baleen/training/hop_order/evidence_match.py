"""Matching of answers and titles in texts, by words instead of characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from baleen.core.types import Passage, Span

# Answers that nearly every passage contains.
_NOT_EXTRACTIVE = frozenset({"", "yes", "no"})

_PARENTHESES = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"\w+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_BETWEEN_WORDS = re.compile(r"\W")
_ASCII_WORDS = bytes(code if _WORD.match(chr(code)) else ord(" ") for code in range(128)) + bytes(128)


def words(text: str) -> tuple[str, ...]:
    """Words without case, accents or punctuation."""
    return tuple(_words_only(text).split())


def _words_only(text: str) -> str:
    """A text with spaces in place of all that is not a word, case or accent."""
    bare = text.casefold()
    if not bare.isascii():
        bare = _NOT_ASCII.sub(_without_accents, unicodedata.normalize("NFKD", bare))
    # Most text is ASCII; bytes are far faster there.
    return bare.encode().translate(_ASCII_WORDS).decode() if bare.isascii() else _BETWEEN_WORDS.sub(" ", bare)


def _without_accents(run: re.Match[str]) -> str:
    return "".join(c for c in run[0] if not unicodedata.combining(c))


# Words that do not identify a title.
_STOP_WORDS = frozenset(
    words(
        "a an and are as at be by de for from had has he her his in is it its la le of on or she that the their them "
        "they this to was were which who whose with"
    )
)


@lru_cache(1 << 12)
def content_words(text: str) -> frozenset[str]:
    """The set of words of a text, without stop words."""
    return frozenset(words(text)) - _STOP_WORDS


def contains(text: str, phrase: str) -> bool:
    """Whether `text` has the words of `phrase` in a row; False for no words."""
    return contains_words(words(phrase), join_words(words(text)))


def contains_words(phrase: Sequence[str], text: str) -> bool:
    """The same for known words, and a text as returned by `join_words`."""
    return bool(phrase) and join_words(phrase) in text


def occurrences(text: str, phrase: str) -> list[Span]:
    """The character spans of `text` that have the words of `phrase` in a row."""
    wanted, placed = words(phrase), _placed_words(text)
    runs = [placed[start : start + len(wanted)] for start in range(len(placed) - len(wanted) + 1) if wanted]
    return [(run[0][1], run[-1][2]) for run in runs if tuple(word for word, _, _ in run) == wanted]


def holds(passage: Passage, answer: str) -> bool:
    """Whether the title or the text of a passage contains an answer."""
    return contains(passage.title, answer) or contains(passage.text, answer)


def is_extractive(answer: str | None) -> bool:
    """Whether an answer can be a string of a passage: neither absent, nor yes, nor no."""
    return " ".join(words(answer or "")) not in _NOT_EXTRACTIVE


def name_words(title: str) -> tuple[str, ...]:
    """The words of a title without its parentheses, which only disambiguate."""
    return words(_PARENTHESES.sub(" ", title)) or words(title)


def title_overlap(title: str, text: str) -> float:
    """The longest run of words of `title` in `text`, as a share of the title's words (0 to 1).

    A run of stop words alone, like "of the", does not count.
    """
    name, where = name_words(title), join_words(words(text))
    for length in range(len(name), 0, -1):
        runs = (name[start : start + length] for start in range(len(name) - length + 1))
        if any(join_words(run) in where for run in runs if length == len(name) or not _STOP_WORDS.issuperset(run)):
            return length / len(name)
    return 0.0


def _placed_words(text: str) -> list[tuple[str, int, int]]:
    """Each of `words(text)` with its start and end in `text`, accents included."""
    bare, origins = list[str](), list[int]()
    for place, character in enumerate(text):
        left = [c for c in unicodedata.normalize("NFKD", character.casefold()) if not unicodedata.combining(c)]
        bare += left
        origins += [place] * len(left)
    ends = [*origins[1:], len(text)]  # accents follow the character that they belong to
    found = []
    for match in _WORD.finditer("".join(bare)):
        start, last = origins[match.start()], match.end() - 1
        found.append((match[0], start, max(ends[last], origins[last] + 1)))
    return found


def join_words(found: Sequence[str]) -> str:
    """Words as one string, with a space before and after each word."""
    return f" {' '.join(found)} "
