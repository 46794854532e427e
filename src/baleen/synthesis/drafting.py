"""Draft statements of each kind from the clauses and descriptions of pages."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, INTERSECTION, TREE, Draft
from baleen.synthesis.pages import Clause, Page
from baleen.synthesis.phrases import Describer, Part, Phrase, asked, distinct, leaks, opening_of, part_of, slot

_NO_RELATIVE = re.compile(r"[,\d]| (?:and|or|as|that|who|which) |^(?:is|was|are|were) (?:\w+ly |also )?(?:an?|the) ")
LENGTHS = {COMPARISON: (2, 3)}  # other kinds take any number of hops
MOST_ATTEMPTS = 4
NEIGHBOURS = 12


@dataclass(frozen=True, slots=True)
class _Request:
    """Arguments of `Drafter.draft`."""

    page: Page
    hops: int
    named: bool
    ask: bool


class Drafter:
    """Drafts statements about the pages of a corpus."""

    def __init__(self, pages: Sequence[Page], describer: Describer) -> None:
        self.pages, self.describer = pages, describer
        self._mentioned_by: dict[int, list[tuple[int, Clause, int]]] = defaultdict(list)
        self._born_alike: dict[tuple[str, str], list[int]] = defaultdict(list)
        for page in pages:
            for clause in page.clauses:
                for mention in describer.replaceable(clause, frozenset({page.number})):
                    place = slot(clause, mention)
                    if place is not None and _can_follow_that(clause, place):
                        self._mentioned_by[mention.target].append((page.number, clause, place))
            if page.begun is not None:
                self._born_alike[page.kind, page.begun[0]].append(page.number)
        self._makers: dict[str, Callable[[_Request, random.Random], Draft | None]] = {
            CHAIN: self._chain,
            BRIDGE: self._bridge,
            TREE: self._tree,
            INTERSECTION: self._intersection,
            COMPARISON: self._comparison,
        }

    def draft(
        self, kind: str, page: Page, hops: int, rng: random.Random, *, named: bool = True, ask: bool = False
    ) -> Draft | None:
        """Draft a statement about `page` that rests on `hops` pages; None if none is found.

        `named`: use the page's name where the kind allows either.  `ask`: the last page asks for one that it mentions.
        """
        found = self._makers[kind](_Request(page, hops, named, ask), rng)
        if found is None or len(set(found.order)) != hops or (ask and found.asked is None):
            return None
        return None if any(leaks(found.text, self.pages[number].name) for number in found.hidden) else found

    def candidates(self, kind: str, hops: int) -> list[int]:
        """Numbers of the pages that may suit a kind and number of hops."""
        if hops not in LENGTHS.get(kind, (hops,)):
            return []
        if kind == BRIDGE:
            return [
                number
                for number in sorted(self._mentioned_by)
                if self.describer.reach[number] >= hops - 1 and self.pages[number].one_of_a_kind
            ]
        if kind == COMPARISON:
            return sorted(number for alike in self._born_alike.values() if len(alike) > 1 for number in alike)
        depth = hops - 1 if kind == CHAIN else hops - 2
        branches = 2 if kind == TREE else 1
        if depth < 1:
            return []
        return [page.number for page in self.pages if len(self._describable_clauses(page, depth, 1)) >= branches]

    def _describable_clauses(self, page: Page, *depths: int) -> list[Clause]:
        """Clauses with a mention that can be described at the last depth; empty if none can at the first."""
        own, reach = frozenset({page.number}), self.describer.reach
        found = [
            [clause for clause in page.all_clauses if self.describer.replaceable(clause, own, 0, reach, depth)]
            for depth in depths
        ]
        return found[-1] if found[0] else []

    def _chain(self, request: _Request, rng: random.Random) -> Draft | None:
        page = request.page
        for clause in _some(self._describable_clauses(page, request.hops - 1), rng):
            said = self.describer.said(
                page, clause, request.hops, frozenset({page.number}), rng, end=asked if request.ask else None
            )
            draft = None if said is None else self._about(page, CHAIN, said, request.named, rng)
            if draft is not None:
                return draft
        return None

    def _tree(self, request: _Request, rng: random.Random) -> Draft | None:
        """Join two clauses of the page by "and", each with a description."""
        if request.hops < 3 or request.ask:
            return None
        page, depths = request.page, [request.hops - 1, 2]
        spoken = _some(self._describable_clauses(page, request.hops - 2, 1), rng)
        rng.shuffle(depths)
        for first in spoken:
            one = self.describer.said(page, first, depths[0], frozenset({page.number}), rng)
            if one is None:
                continue
            for second in spoken:
                if second.sid == first.sid or _same_opening(first, second):
                    continue
                used = frozenset({page.number, *one.hidden})
                two = self.describer.said(page, second, depths[1], used, rng)
                if two is not None:
                    return self._about(page, TREE, _joined(one, two), request.named, rng)
        return None

    def _about(self, page: Page, kind: str, said: Phrase, named: bool, rng: random.Random) -> Draft | None:
        """Add the page as the subject: by name, or described by another of its sentences."""
        order = (page.number, *said.hidden)
        if named:
            return Draft(kind, (Part(page.subject),), said.parts, said.facts, order, (page.number,), said.asked)
        subject = self._subject(page, said, rng)
        if subject is None:
            return None
        return Draft(kind, subject.parts, said.parts, distinct(subject.facts + said.facts), order, (), said.asked)

    def _subject(self, page: Page, said: Phrase, rng: random.Random) -> Phrase | None:
        """Describe the page by one of its sentences that is not used yet; its definition must be unused too."""
        taken = {sid for number, sid in said.facts if number == page.number}
        clauses = [clause for clause in page.clauses if clause.sid not in taken and len(clause.text.split()) <= 10]
        if page.defined in taken or not clauses or not page.one_of_a_kind:
            return None
        clause = rng.choice(clauses)
        return Phrase(
            (opening_of(page), part_of(page, clause)), ((page.number, page.defined), (page.number, clause.sid))
        )

    def _bridge(self, request: _Request, rng: random.Random) -> Draft | None:
        """Describe the page by what another page says of it, then state something from its own text."""
        page = request.page
        subject = self._role(page, frozenset({page.number}), rng)
        if subject is None:
            return None
        start = subject.hidden[-1]
        for clause in _some(page.clauses, rng):
            used = frozenset({page.number, start})
            said = self.describer.said(page, clause, request.hops - 1, used, rng, end=asked if request.ask else None)
            if said is not None:
                order = (start, page.number, *said.hidden)
                facts = distinct(subject.facts + said.facts)
                return Draft(BRIDGE, subject.parts, said.parts, facts, order, (start,), said.asked)
        return None

    def _role(self, page: Page, used: frozenset[int], rng: random.Random) -> Phrase | None:
        """Describe the page by what another page says of it; the page is hidden last.

        "the football club that Ada Example played for"
        """
        others = [found for found in self._mentioned_by[page.number] if found[0] not in used]
        if not others or not page.one_of_a_kind:
            return None
        number, clause, place = rng.choice(others)
        other = self.pages[number]
        parts = (
            Part(f"the {page.noun} that ", page.number, page.defined, opening=True),
            Part(f"{other.subject} "),
            part_of(other, clause, 0, place - 1),
        )
        return Phrase(parts, ((number, clause.sid), (page.number, page.defined)), (page.number, number))

    def _intersection(self, request: _Request, rng: random.Random) -> Draft | None:
        """Build a chain whose last page is also mentioned by another page, which is named."""
        if request.hops < 3 or request.ask:
            return None
        page = request.page
        for clause in _some(self._describable_clauses(page, request.hops - 2), rng):
            used = frozenset({page.number})
            said = self.describer.said(page, clause, request.hops - 2, used, rng, end=self._role)
            if said is not None:
                order = (page.number, *said.hidden)
                named = (page.number, order[-1])
                return Draft(INTERSECTION, (Part(page.subject),), said.parts, said.facts, order, named)
        return None

    def _comparison(self, request: _Request, rng: random.Random) -> Draft | None:
        """Compare the years of two pages of a kind; the other is named or, for more hops, described."""
        page = request.page
        if page.begun is None or request.ask:
            return None
        other = self._neighbour(page, self._born_alike[page.kind, page.begun[0]], rng)
        second = self._compared(other, request.hops, page, rng)
        if other.begun is None or other.number == page.number or second is None:
            return None
        (_, year, sid), (_, later, other_sid) = page.begun, other.begun
        facts = distinct([(page.number, sid), *second.facts, (other.number, other_sid)])
        order = (page.number, *reversed(second.hidden or (other.number,)))
        said, wrong = (f"was {page.begun[0]} {how} " for how in _when(year, later))
        predicate = (Part(said, page.number, sid), *second.parts)
        return Draft(COMPARISON, (Part(page.subject),), predicate, facts, order, order[:2], None, wrong)

    def _neighbour(self, page: Page, alike: Sequence[int], rng: random.Random) -> Page:
        """Of some similar pages, the one that shares most links with a page; the page itself if there is none."""
        some = [self.pages[number] for number in rng.choices(alike, k=NEIGHBOURS)]
        others = [other for other in some if other.name != page.name]
        return max(others, key=lambda other: len(other.links & page.links), default=page)

    def _compared(self, other: Page, hops: int, page: Page, rng: random.Random) -> Phrase | None:
        if hops == 2:
            return Phrase((Part(other.subject),), ())
        return self._role(other, frozenset({page.number, other.number}), rng) if hops == 3 else None


def _some(clauses: Sequence[Clause], rng: random.Random) -> list[Clause]:
    """A few clauses in random order."""
    return rng.sample(clauses, min(len(clauses), MOST_ATTEMPTS))


def _when(one: int, other: int) -> tuple[str, str]:
    """The relation of one year to another in words, and its opposite."""
    if one == other:
        return "in the same year as", "ten years before"
    return ("before", "after") if one < other else ("after", "before")


def _joined(one: Phrase, two: Phrase) -> Phrase:
    return Phrase((*one.parts, Part(", and "), *two.parts), distinct(one.facts + two.facts), one.hidden + two.hidden)


def _same_opening(one: Clause, other: Clause) -> bool:
    """Whether two clauses begin alike, which reads badly with "and" between them."""
    return one.text.split()[:2] == other.text.split()[:2]


def _can_follow_that(clause: Clause, place: int) -> bool:
    """Whether a clause up to `place` can follow "that": short, and not a list."""
    said = clause.text[:place]
    words = said.split()
    if not 2 <= len(words) <= 8 or words[-1] in {"and", "or", "of", "including"}:
        return False
    return not _NO_RELATIVE.search(said)
