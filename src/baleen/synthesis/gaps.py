"""Questions with a gap: a true statement without a name, a year or a number of a gold sentence.

    "The club that A played for plays its home games at the Corona Ground."     "... plays its home games at what?"
    "A was born in a town that was founded in 1288."                            "... that was founded in what year?"

The question word replaces the gap, as in a quiz, and the answer need not have a page of its own.  The gap is on a page
that the question does not name, so no answer is found without a hop.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from baleen.synthesis.drafts import COMPARISON, Draft
from baleen.synthesis.falsehoods import BOUND, COUNT, YEAR, without_days
from baleen.synthesis.mentions import CALENDAR, Mention
from baleen.synthesis.pages import Clause, Page
from baleen.synthesis.phrases import Part, ends, leaks, slot
from baleen.synthesis.questions import Question
from baleen.synthesis.words import word_set

GAP = "gap"

_NAME = re.compile(r"[A-Z][\w'.&-]*\w(?: (?:(?:of|de|la|von|van) (?:the )?)?[A-Z][\w'.&-]*\w)*")
# "Department [for Transport]", "[Arts] and Sciences": part of a longer name, or one of several.
_GOES_ON = re.compile(r" (?:and|or|for|on|to|of|&) (?:the )?[A-Z\d]")
_WENT_ON = re.compile(r"[A-Z]\S* (?:and|or|for|on|to|of|&) (?:the )?$")
_OF_PEOPLE = re.compile(
    r"\b(?:(?:directed|written|composed|sung|hosted|narrated|portrayed|painted|coached|edited) by|stars|starring|married) $"
)
_NO_KINDS = word_set("entity spoken given in active interactive")
_BEFORE_YEAR = re.compile(r"\b(?:in|since|until|from) $")
_BEFORE_LABEL = re.compile(
    r"(?:\b[A-Z]\S*|'s|\b(?:the|number|top|highway|route|between|some|roughly|estimated|and|or)) $"
)
_COUNTED = re.compile(r" (?!(?:according|out)\b)[a-z]{3,}")


class Gap(NamedTuple):
    """A possible gap of a part: `asking` replaces the words from `start` to `end`; `answer` is what they say."""

    start: int
    end: int
    asking: str
    answer: str


def gap(draft: Draft, pages: Sequence[Page], texts: Callable[[int], str], rng: random.Random) -> Question | None:
    """Ask for a random gap of a draft; None if its page's text has no gap's answer word for word."""
    if draft.kind == COMPARISON or draft.asked is not None:
        return None
    found = [
        Question(asked.question, each.answer, asked)
        for place, part in draft.stated
        if part.page not in draft.named
        for each in gaps(part, pages)
        if draft.text.count(each.answer) == 1 and each.answer in texts(part.page)
        for asked in [draft.with_part(place, _without(part, each))]
        if not leaks(asked.text, each.answer)
    ]
    return rng.choice(found) if found else None


def _without(part: Part, gone: Gap) -> Part:
    return part.changed(part.text[: gone.start] + gone.asking + part.text[gone.end :])


def gaps(part: Part, pages: Sequence[Page]) -> Iterator[Gap]:
    """Yield possible gaps: names that a noun phrase can replace, years, and counts."""
    for mention in part.mentions:
        yield from _name(part, mention, _asking(pages[mention.target]))
    for found in _NAME.finditer(part.text):
        if not part.names(*found.span()) and not CALENDAR.issuperset(found[0].split()):
            asking = "who" if _OF_PEOPLE.search(part.text[: found.start()]) else "what"
            yield from _name(part, Mention(*found.span(), -1), asking)
    yield from _numbers(part)


def _asking(page: Page) -> str:
    if page.person:
        return "who"
    usable = page.kind and page.kind not in _NO_KINDS and not page.kind.endswith("most")
    return f"which {page.kind}" if usable else "what"


def _name(part: Part, mention: Mention, asking: str) -> Iterator[Gap]:
    text, (start, end, _) = part.text, mention
    quoted = text[start - 1 : start] == '"' and text[end : end + 1] == '"'
    place = slot(Clause(part.sid, text), mention)
    if place is None or _GOES_ON.match(text, end) or _WENT_ON.search(text[:start]):
        return
    if text[: start - quoted].count('"') % 2 == 0:  # else it is inside a quotation
        yield Gap(place, end + quoted, asking, text[start:end])


def _numbers(part: Part) -> Iterator[Gap]:
    plain = without_days(part.text)
    for found in YEAR.finditer(plain):
        fits = _BEFORE_YEAR.search(plain[: found.start()]) and ends(plain[found.end() :])
        if fits and not part.names(*found.span()) and not _GOES_ON.match(plain, found.end()):
            yield Gap(*found.span(), "what year", found[0])
    for found in COUNT.finditer(plain):
        before, after = plain[: found.start()], plain[found.end() :]
        fits = _COUNTED.match(after) and not ends(after) and not BOUND.search(before)
        if fits and not _BEFORE_LABEL.search(before) and not part.names(*found.span()):
            yield Gap(*found.span(), "how many", found[0])
