"""Sentence splitting with sentencex, chosen by measurement (`experiments/sentence-splitting.md`).

The library is imported only for text that is not split yet, so it is not needed for a split corpus.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from baleen.core.errors import MissingExtraError
from baleen.core.types import Span

# Characters of a paragraph per call, and of the longest sentence: the library's time is quadratic in the number of
# sentences of a paragraph without spaces (3 s for 100,000 characters of Japanese).
WINDOW = 10_000

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LAST_SPACE = re.compile(r"\s\S*\Z")
# The library needs UTF-8, which an unpaired surrogate has not, and takes every space for one byte: it panics at an
# upper-case letter, a no-break space and a full stop.
_UNSAFE = re.compile(r"[\ud800-\udfff]|[^\S\x00-\x7f]")


def split_sentences(text: str) -> tuple[Span, ...]:
    """Split text into sentences, as spans of characters (start, end).

    Spans are in order, do not overlap, have no whitespace at either end, and cover every character that is not
    whitespace.  A blank line always ends a sentence.
    """
    starts = [start for begin, end in _paragraphs(text) for start in _starts(text, begin, end)]
    ends = [*starts[1:], len(text)]
    spans = (_stripped(text, start, end) for start, end in zip(starts, ends, strict=True))
    return tuple((start, end) for start, end in spans if start < end)


def _paragraphs(text: str) -> Iterator[Span]:
    begin = 0
    for blank in _BLANK_LINE.finditer(text):
        yield begin, blank.start()
        begin = blank.end()
    yield begin, len(text)


def _starts(text: str, begin: int, end: int) -> Iterator[int]:
    """The starts of the sentences of the paragraph text[begin:end], the first at `begin`."""
    while end - begin > WINDOW:
        first, *others = _boundaries(text[begin : begin + WINDOW])
        # The last sentence may continue beyond the window, so the next window starts with it.
        yield from (begin + start for start in [first, *others[:-1]])
        begin += others[-1] if others else _last_space(text[begin : begin + WINDOW])
    yield from (begin + start for start in _boundaries(text[begin:end]))


def _boundaries(text: str) -> list[int]:
    if not text.strip():
        return [0]
    found = _library()("en", _UNSAFE.sub(" ", text))  # one character for one: offsets hold
    return [0, *(sentence["start_index"] for sentence in found if sentence["start_index"] > 0)]


def _last_space(window: str) -> int:
    """Where to cut a window that is one sentence: after its last space, or at its end."""
    space = _LAST_SPACE.search(window)
    return space.start() + 1 if space else len(window)


def _stripped(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


@cache
def _library() -> Callable[[str, str], list[dict[str, Any]]]:
    try:
        boundaries: Callable[[str, str], list[dict[str, Any]]]
        boundaries = importlib.import_module("sentencex").get_sentence_boundaries
    except ImportError:
        raise MissingExtraError(
            "splitting text into sentences needs the package 'sentencex', which is not installed: "
            "pip install 'sentencex>=1.0.32,<2', or give every text as a list of sentences"
        ) from None
    return boundaries
