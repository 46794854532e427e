"""Questions with a gap: a true statement without a name, a year or a number that a gold sentence gives.

    "The club that A played for plays its home games at the Corona Ground."     "... plays its home games at what?"
    "A was born in a town that was founded in 1288."                            "... that was founded in what year?"

They ask in place, as a quiz does, and for whatever a sentence names, not only for what has a page of its own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from baleen.synthesis.drafts import COMPARISON, Draft
from baleen.synthesis.falsehoods import BOUND, COUNT, DAY, YEAR
from baleen.synthesis.mentions import Mention
from baleen.synthesis.pages import Clause, Page
from baleen.synthesis.phrases import Part, slot
from baleen.synthesis.questions import Question

_NAME = re.compile(r"[A-Z][\w'.&-]*\w(?: (?:(?:of|de|la|von|van) (?:the )?)?[A-Z][\w'.&-]*\w)*")
_BEFORE_YEAR = re.compile(r"\b(?:in|since|until|from|to|of|by) $")
_ENDS = re.compile(r"$|,| [a-z]")
_COUNTED = re.compile(r" [a-z]{3,}")


class Gap(NamedTuple):
    """What may be left out of a part: `answer`, for which the words from `start` to `end` give way to `asking`."""

    start: int
    end: int
    asking: str
    answer: str


def gap(draft: Draft, pages: Sequence[Page], texts: Callable[[int], str], rng: random.Random) -> Question | None:
    """A draft with one of its gaps, at random; None where there is none that its page's text fills word for word."""
    if draft.kind == COMPARISON or draft.asked is not None:
        return None
    found = [
        (place, part, each)
        for place, part in draft.stated
        for each in gaps(part, pages)
        if draft.text.count(each.answer) == 1 and each.answer in texts(part.page)
    ]
    if not found:
        return None
    place, part, chosen = rng.choice(found)
    text = part.text[: chosen.start] + chosen.asking + part.text[chosen.end :]
    asked = draft.with_part(place, replace(part, text=text, mentions=(), whole=False))
    return Question(f"{asked.text[:-1]}?", chosen.answer, asked)


def gaps(part: Part, pages: Sequence[Page]) -> Iterator[Gap]:
    """Names of pages and other names, where a noun phrase may stand in their place; years; and what is counted."""
    clause = Clause(part.sid, part.text)
    for mention in part.mentions:
        page = pages[mention.target]
        yield from _name(clause, mention, "who" if page.person else f"which {page.kind}" if page.kind else "what")
    named = [(mention.start, mention.end) for mention in part.mentions]
    for found in _NAME.finditer(part.text):
        if not any(start < found.end() and found.start() < end for start, end in named):
            yield from _name(clause, Mention(*found.span(), -1), "what")
    yield from _numbers(part.text, named)


def _name(clause: Clause, mention: Mention, asking: str) -> Iterator[Gap]:
    place, (start, end, _) = slot(clause, mention), mention
    if place is not None:
        quoted = clause.text[start - 1 : start] == '"' and clause.text[end : end + 1] == '"'
        yield Gap(place, end + quoted, asking, clause.text[start:end])


def _numbers(text: str, named: Sequence[tuple[int, int]]) -> Iterator[Gap]:
    plain = DAY.sub(lambda day: " " * len(day[0]), text)
    for found in YEAR.finditer(plain):
        if _BEFORE_YEAR.search(plain[: found.start()]) and _ENDS.match(plain, found.end()):
            yield Gap(*found.span(), "what year", found[0])
    for found in COUNT.finditer(plain):
        inside = any(start < found.end() and found.start() < end for start, end in named)
        if not inside and not BOUND.search(plain[: found.start()]) and _COUNTED.match(plain, found.end()):
            yield Gap(*found.span(), "how many", found[0])
