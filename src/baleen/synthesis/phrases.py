"""Text parts with their sources, and descriptions that replace mentions of pages.

    "was directed by [Denis Villeneuve]"    ->    "was directed by a Canadian filmmaker who was born in Quebec"

A `Part` is text from one sentence, or glue.  A `Phrase` is a sequence of parts, the facts that they rest on, and the
pages that they describe without naming them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from baleen.synthesis.lexicon import BEFORE_MENTION, COPULAS, PLACES, PREPOSITIONS, is_finite
from baleen.synthesis.mentions import Mention
from baleen.synthesis.pages import Clause, Page
from baleen.synthesis.words import word_set

GLUE = -1
_WORD = re.compile(r"[^\W_]+")
_AFTER_MENTION = PREPOSITIONS | word_set("and or who which as where when while until since but that")
_NEXT = re.compile(r"^ ([a-z]+)\b")
_SPORT = re.compile(
    r"\b(?:play(?:s|ed|ing)?|coach(?:ed)?|draft(?:ed)?|sign(?:ed|s)|traded|defeated|beat|loan|manager|captain|player|goalkeeper)\b"
)
_ROLE = re.compile(r"[A-Z]?[a-z]+(?:-[a-z]+)?")
_OF_NAME = word_set(
    """city town village island state province county municipality region district borough suburb parish department kingdom
    republic hamlet commune prefecture capital community"""
)
_WHERE = word_set("in from near of to around into outside within through on under inside")
_ALSO_WHO = word_set("of from to under")  # words of _WHERE that a person may follow too
LONGEST_DESCRIPTION = 18


@dataclass(frozen=True, slots=True)
class Part:
    """Text from sentence `sid` of page number `page`, with its mentions; glue has the page GLUE."""

    text: str
    page: int = GLUE
    sid: int = 0
    mentions: tuple[Mention, ...] = ()
    whole: bool = False  # a complete clause, which may suit other pages of the kind
    opening: bool = False  # states the page's kind; not to be changed
    lender: tuple[int, int] | None = None  # page and sid of the source of a borrowed part

    def names(self, start: int, end: int) -> bool:
        """Whether `text[start:end]` overlaps a mention."""
        return any(mention.start < end and start < mention.end for mention in self.mentions)

    def changed(self, text: str) -> Part:
        """Change the text and remove the mentions."""
        return replace(self, text=text, mentions=(), whole=False)


@dataclass(frozen=True, slots=True)
class Phrase:
    parts: tuple[Part, ...]
    facts: tuple[tuple[int, int], ...]  # (page number, sid)
    hidden: tuple[int, ...] = ()  # pages that are described, not named
    asked: int | None = None  # page to ask for

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


def slot(clause: Clause, mention: Mention) -> int | None:
    """Where a description can start that replaces a mention and ends the clause; None if it cannot.

    The words that lead up to the name are replaced too: quotes, "the", "American director", "the city of".
    """
    text, (start, end, _) = clause.text, mention
    if text[start - 1 : start] == '"' and text[end : end + 1] == '"':
        start, end = start - 1, end + 1
    if not ends(text[end:]) or not text[start - 1 : start].isspace():
        return None
    before = text[:start].split()
    stop = _lead(before)
    if stop is None or "between" in before:
        return None
    return len(" ".join(before[:stop])) + 1


def ends(after: str) -> bool:
    """Whether a clause can end here: before a comma, a preposition, a conjunction or nothing."""
    following = _NEXT.match(after)
    return not after or after[0] == "," or (following is not None and following[1] in _AFTER_MENTION)


def _lead(before: Sequence[str]) -> int | None:
    """Number of words before a mention that stay: up to a preposition, or to the verb alone."""
    stop = len(before)
    while stop and len(before) - stop <= 4:
        word = before[stop - 1]
        if word == "of" and stop >= 2 and before[stop - 2] in _OF_NAME:
            stop -= 2
        elif word == "of" and stop >= 2 and _no_name_follows(before[stop - 2]):
            return None
        elif word in BEFORE_MENTION:
            return stop
        elif stop == 1 and is_finite(word) and word not in COPULAS:
            return 1
        elif word == "the" or (before[stop : stop + 1] != ["the"] and _is_role(word)):
            stop -= 1
        else:
            return None
    return None


def _no_name_follows(word: str) -> bool:
    """Whether "of" after a word starts part of a name or a list of names: "Bight of", "states of"."""
    return word[:1].isupper() or (word.endswith("s") and word[:-1] in _OF_NAME) or word == "cities"


def _is_role(word: str) -> bool:
    """Whether a word is like "American" or "director" before a name."""
    return _ROLE.fullmatch(word) is not None and not is_finite(word)


def part_of(page: Page, clause: Clause, start: int = 0, end: int | None = None) -> Part:
    """The text of a clause from `start` to `end`, with its mentions."""
    end = len(clause.text) if end is None else end
    inside = tuple(
        Mention(mention.start - start, mention.end - start, mention.target)
        for mention in clause.mentions
        if start <= mention.start and mention.end <= end
    )
    return Part(clause.text[start:end], page.number, clause.sid, inside, whole=start == 0 and end == len(clause.text))


def with_replaced(page: Page, clause: Clause, start: int, mention: Mention, phrase: Phrase) -> Phrase | None:
    """A clause from `start` up to a mention, with a phrase in place of the mention."""
    place = slot(clause, mention)
    if place is None or place < start:
        return None
    facts = distinct([(page.number, clause.sid), *phrase.facts])
    return replace(phrase, parts=(part_of(page, clause, start, place), *phrase.parts), facts=facts)


def leaks(text: str, name: str) -> bool:
    """Whether a text contains a capitalised word or a number of the name."""
    telling = {word for word in _WORD.findall(name) if (word[0].isupper() or word.isdigit()) and len(word) > 2}
    return bool(telling & set(_WORD.findall(text)))


End = Callable[[Page, frozenset[int], random.Random], Phrase | None]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to describe a page: an opening, and a clause from `start` on."""

    opening: tuple[Part, ...]
    clause: Clause
    start: int = 0


class Describer:
    """Descriptions of pages without their names, of any depth.

    `reach[number]` is the largest number of pages, itself included, that a description can rest on, up to `deepest`.
    """

    def __init__(self, pages: Sequence[Page], usable: Callable[[int], bool], deepest: int = 4) -> None:
        self.pages = pages
        self._forms = [_forms(page) for page in pages]
        self._open = {
            id(clause): tuple(
                mention for mention in clause.mentions if usable(mention.target) and self._fits(clause, mention)
            )
            for page in pages
            for clause in page.all_clauses
        }
        self.reach = self._reached(deepest)

    def _reached(self, deepest: int) -> list[int]:
        reach = [int(bool(forms)) for forms in self._forms]
        for depth in range(2, deepest + 1):
            deeper = [
                number
                for number, forms in enumerate(self._forms)
                if any(self.replaceable(form.clause, frozenset(), form.start, reach, depth - 1) for form in forms)
            ]
            for number in deeper:
                reach[number] = depth
        return reach

    def describe(
        self, page: Page, hops: int, used: frozenset[int], rng: random.Random, end: End | None = None
    ) -> Phrase | None:
        """A noun phrase for `page` that rests on `hops` pages, itself first and none in `used`.

        With `end`, its last page mentions one more page in the words that `end` chooses.
        """
        forms = self._forms[page.number]
        for form in rng.sample(forms, len(forms)):
            phrase = self.said(page, form.clause, hops, used | {page.number}, rng, end=end, start=form.start)
            if phrase is None:
                continue
            found = replace(
                phrase,
                parts=(*form.opening, *phrase.parts),
                facts=distinct([(page.number, page.defined), *phrase.facts]),
                hidden=(page.number, *phrase.hidden),
            )
            if not leaks(found.text, page.name):
                return found
        return None

    def said(
        self,
        page: Page,
        clause: Clause,
        hops: int,
        used: frozenset[int],
        rng: random.Random,
        *,
        end: End | None = None,
        start: int = 0,
    ) -> Phrase | None:
        """A clause of `page` from `start` on that rests on `hops` pages; more than one: with a mention described."""
        if hops == 1 and end is None:
            return Phrase((part_of(page, clause, start),), ((page.number, clause.sid),))
        mentions = self.replaceable(clause, used, start, self.reach, hops - 1)
        for mention in rng.sample(mentions, len(mentions)):
            target = self.pages[mention.target]
            if hops == 1 and clause.text[mention.start : mention.end] != target.name:
                continue  # a surname: the answer must be in the sentence
            if hops > 1:
                inner = self.describe(target, hops - 1, used, rng, end)
            else:
                inner = end(target, used, rng) if end else None
            if inner is not None:
                return with_replaced(page, clause, start, mention, inner)
        return None

    def replaceable(
        self, clause: Clause, used: frozenset[int], start: int = 0, reach: Sequence[int] = (), depth: int = 0
    ) -> list[Mention]:
        """Mentions of a clause from `start` on that a description of `depth` pages can replace."""
        return [
            mention
            for mention in self._open[id(clause)]
            if mention.target not in used and mention.start > start and (not depth or reach[mention.target] >= depth)
        ]

    def _fits(self, clause: Clause, mention: Mention) -> bool:
        place = slot(clause, mention)
        if place is None:
            return False
        target, words = self.pages[mention.target], clause.text[:place].split()
        before, led_up = words[-1], clause.text[place : mention.start].split()
        if "of" in led_up and led_up[led_up.index("of") - 1] != target.kind:
            return False  # "the province of" a city
        if before in {"and", "or"} and words[-2:][0].isdigit():
            return False  # "the 1920 and 1924 Games"
        if target.person:  # "in Saint Paul" is the city, not the person
            return before not in _WHERE - _ALSO_WHO and not words[-2:][0].endswith(("north", "south", "east", "west"))
        if target.kind not in PLACES:
            return True
        return before in _WHERE and not _SPORT.search(clause.text)  # in sports "Valencia" may be the club


def opening_of(page: Page) -> Part:
    """The opening that a clause of the page follows: "a Canadian filmmaker who "."""
    return Part(f"{page.article} {page.noun} {page.which} ", page.number, page.defined, opening=True)


def _forms(page: Page) -> list[Form]:
    """The ways to describe a page: its definition, or its kind and another clause."""
    forms = []
    if page.definition is not None and _specific(page.definition):
        forms.append(Form((), page.definition, page.definition.text.index(" ") + 1))
    if not page.one_of_a_kind:
        return forms
    room = LONGEST_DESCRIPTION - len(page.noun.split()) - 2
    return forms + [Form((opening_of(page),), clause) for clause in page.clauses if len(clause.text.split()) <= room]


def asked(page: Page, used: frozenset[int], rng: random.Random) -> Phrase | None:
    """An `End` that asks for a page by its kind: "a film directed by which filmmaker"."""
    del used, rng
    return Phrase((Part(f"which {page.noun}"),), (), (), page.number) if page.one_of_a_kind else None


def distinct(facts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Facts in order, without duplicates."""
    return tuple(dict.fromkeys(facts))


def _specific(definition: Clause) -> bool:
    """Whether a definition says more than a kind: "a city in Ohio" does, "an American actor" does not."""
    words = definition.text.split()[2:]
    telling = [word for word in words if word[0].isupper() or word[0].isdigit()]
    return (
        4 <= len(words) <= LONGEST_DESCRIPTION - 2
        and (len(telling) >= 2 or len(words) >= 7)
        and definition.text.count(",") <= 1
    )
