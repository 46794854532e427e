"""Whether one text speaks of another: answers in passages, titles in claims.  Words are compared, not characters."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from baleen.types import Passage, Span

# Answers that stand in nearly every passage and say nothing of it.
_VERDICTS = frozenset({"", "yes", "no"})

_PARENTHESES = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"\w+")


def words(text: str) -> tuple[str, ...]:
    """Words without case, accents or punctuation."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return tuple(_WORD.findall(bare))


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
    return bool(words(phrase)) and _spaced(words(phrase)) in _spaced(words(text))


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


def title_overlap(title: str, text: str) -> float:
    """How much of `title` appears in `text`, from 0 to 1: the longest run of its words, as a share of all of them.

    What stands in parentheses tells apart titles and is no part of the name.  A run of nothing but words like "of the"
    does not count.
    """
    name = words(_PARENTHESES.sub(" ", title)) or words(title)
    where = _spaced(words(text))
    for length in range(len(name), 0, -1):
        runs = (name[start : start + length] for start in range(len(name) - length + 1))
        if any(_spaced(run) in where for run in runs if length == len(name) or not _EMPTY.issuperset(run)):
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


def _spaced(found: tuple[str, ...]) -> str:
    return f" {' '.join(found)} "
