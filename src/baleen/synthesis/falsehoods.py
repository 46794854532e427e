"""False or unsupported statements, made from true ones by one change.

    number      another year, count or rank                 refuted: the gold sentence has the right one
    entity      another of the same kind and neighbourhood  refuted: the gold sentence names the right one
    relation    a word replaced by its opposite             refuted
    borrowed    a clause about another page of the kind     not enough information: the page does not say it

A change is rejected if the corpus might support it: the page and the other entity must not mention each other, and the
page must not contain the other number.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from baleen.data.example import NOT_ENOUGH, REFUTED
from baleen.synthesis.drafts import COMPARISON, Draft
from baleen.synthesis.lexicon import BEFORE_MENTION, OPPOSITES
from baleen.synthesis.mentions import Mention
from baleen.synthesis.pages import Clause, Page
from baleen.synthesis.phrases import GLUE, Part

NUMBER, ENTITY, RELATION, BORROWED, ORDER = "number", "entity", "relation", "borrowed", "order"
YEAR = re.compile(r"(?<![\d,.-])(1[0-9]{3}|20[0-2][0-9])(?![\d,-]|\.\d)")
COUNT = re.compile(r"(?<![\d,.$£€-])(\d{1,3}(?:,\d{3})+|[2-9]\d?|1\d{1,2}|[2-9]\d{2})(?![\d,.%-]|th|st|nd|rd)")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY = re.compile(rf"\b(?:{MONTHS}) \d{{1,2}}\b|\b\d{{1,2}} (?:{MONTHS})\b")
BOUND = re.compile(
    r"(?:\b(?:over|than|least|most|under|to|about|approximately|around|nearly|almost|population of .*) )$"
)
_RANK = re.compile(r"\b(\d{1,3})(th|st|nd|rd)\b")
_WORD = re.compile(r"[A-Za-z']+")
_OWN = re.compile(r"\b(?:his|her|its|their|himself|herself|itself)\b")
SAMPLE = 40  # pages of a kind to choose the nearest neighbour from


@dataclass(frozen=True, slots=True)
class Falsehood:
    """A changed draft, its label, and the kind of change."""

    draft: Draft
    label: str
    how: str


class Falsifier:
    """Turns true drafts about pages into false ones."""

    def __init__(self, pages: Sequence[Page], texts: Callable[[int], str]) -> None:
        self.pages, self._texts = pages, texts
        self._kinds: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for page in pages:
            if page.kind:
                self._kinds[page.kind, page.person].append(page.number)

    def refute(self, draft: Draft, rng: random.Random) -> Falsehood | None:
        """Contradict a draft in one way, tried in random order."""
        if draft.kind == COMPARISON:
            first = replace(draft.predicate[0], text=draft.opposite)
            return Falsehood(replace(draft, predicate=(first, *draft.predicate[1:])), REFUTED, ORDER)
        ways = [(NUMBER, self._number), (ENTITY, self._entity), (ENTITY, self._entity), (RELATION, self._relation)]
        rng.shuffle(ways)
        places = list(draft.stated)  # a change to a subject that identifies a page would identify another page
        rng.shuffle(places)
        for how, change in ways:
            for place, part in places:
                changed = change(part, rng)
                if changed is not None:
                    return Falsehood(draft.with_part(place, part.changed(changed)), REFUTED, how)
        return None

    def unsettle(self, draft: Draft, rng: random.Random) -> Falsehood | None:
        """Replace a clause by one of another page of the same kind that this page does not state."""
        places = [place for place in enumerate(draft.parts) if place[1].whole]
        rng.shuffle(places)
        for place, part in places:
            found = self._borrowed(self.pages[part.page], rng)
            if found is None:
                continue
            lender, borrowed = found
            said = self.pages[part.page].defined
            changed = draft.with_part(place, Part(borrowed.text, part.page, said, lender=(lender.number, borrowed.sid)))
            used = {(other.page, other.sid) for other in changed.parts if other.page != GLUE}
            kept = [fact for fact in draft.facts if fact != (part.page, part.sid) or fact in used]
            facts = tuple(dict.fromkeys([*kept, (part.page, said)]))
            return Falsehood(replace(changed, facts=facts), NOT_ENOUGH, BORROWED)
        return None

    def _number(self, part: Part, rng: random.Random) -> str | None:
        for pattern, other in ((YEAR, _other_year), (COUNT, _other_count), (_RANK, _other_rank)):
            found = pattern.search(without_days(part.text))
            if found is None or part.names(*found.span()) or BOUND.search(part.text[: found.start()]):
                continue
            new = other(found[0], rng)
            if new != found[0] and new not in self._texts(part.page):
                return part.text[: found.start()] + new + part.text[found.end() :]
        return None

    def _entity(self, part: Part, rng: random.Random) -> str | None:
        mentions = [mention for mention in part.mentions if _apart(part.text, mention)]
        rng.shuffle(mentions)
        for mention in mentions:
            other = self._sibling(self.pages[mention.target], self.pages[part.page], rng)
            if other is not None:
                return part.text[: mention.start] + other.name + part.text[mention.end :]
        return None

    def _sibling(self, target: Page, page: Page, rng: random.Random) -> Page | None:
        """A page of the target's kind and neighbourhood, unrelated to the page that mentions the target."""
        kin = self._kinds.get((target.kind, target.person), [])
        best: tuple[int, Page] | None = None
        for number in rng.sample(kin, min(SAMPLE, len(kin))):
            other = self.pages[number]
            if number in {target.number, page.number} or other.subject != other.name:
                continue
            if (
                number in page.links
                or page.number in other.links
                or number in target.links
                or target.number in other.links
            ):
                continue
            if _overlap(other.name, target.name) or other.name in self._texts(page.number):
                continue
            near = len(other.links & target.links) + len(other.links & page.links)
            if best is None or near > best[0]:
                best = (near, other)
        return None if best is None else best[1]

    def _relation(self, part: Part, rng: random.Random) -> str | None:
        found = [
            match for match in _WORD.finditer(part.text) if match[0] in OPPOSITES and not part.names(*match.span())
        ]
        if not found:
            return None
        match = rng.choice(found)
        if part.text[match.end() : match.end() + 2].strip()[:1].isupper():
            return None  # "North Carolina", "first Gulf War"
        if OPPOSITES[match[0]] in _WORD.findall(self._texts(part.page)):
            return None  # may have joined a club and left it
        return part.text[: match.start()] + OPPOSITES[match[0]] + part.text[match.end() :]

    def _borrowed(self, page: Page, rng: random.Random) -> tuple[Page, Clause] | None:
        """A specific clause of a page of the same kind, which this page does not state."""
        kin = self._kinds.get((page.kind, page.person), [])
        for number in rng.sample(kin, min(SAMPLE, len(kin))):
            other = self.pages[number]
            clauses = [clause for clause in other.clauses if self._foreign(clause, page)]
            if clauses and other.name != page.name and page.number not in other.links:
                return other, rng.choice(clauses)
        return None

    def _foreign(self, clause: Clause, page: Page) -> bool:
        words = clause.text.split()
        if not 4 <= len(words) <= 14 or _OWN.search(clause.text) or _overlap(clause.text, page.name):
            return False
        if any(mention.target in page.links or mention.target == page.number for mention in clause.mentions):
            return False
        if words[:2] in _openings(page):
            return False  # "was founded in 1650" is refuted, not unsupported, for a town founded in 1288
        telling = [word for word in words if word[0].isupper() or word[0].isdigit()]
        own = self._texts(page.number)
        return bool(telling) and not any(word.strip(",") in own for word in telling)


def _openings(page: Page) -> list[list[str]]:
    """The first two words of each statement of a page about itself, its founding or birth included."""
    begun = [["was", page.begun[0]]] if page.begun else []
    return begun + [clause.text.split()[:2] for clause in page.clauses]


def _apart(text: str, mention: Mention) -> bool:
    """Whether a name can be replaced: after a preposition, a comma or "and", and not inside a compound."""
    before, after = text[: mention.start].split(), text[mention.end :]
    if not before or not (before[-1] in BEFORE_MENTION or before[-1].endswith(",")):
        return False
    return not after or after[0] in ",." or (after[0] == " " and not after[1:2].isupper())


def without_days(text: str) -> str:
    """Blank out the days of dates: their numbers are neither years nor counts."""
    return _DAY.sub(lambda day: " " * len(day[0]), text)


def _other_year(year: str, rng: random.Random) -> str:
    return str(min(2021, int(year) + rng.choice([-12, -9, -7, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 7, 9, 12])))


def _other_count(count: str, rng: random.Random) -> str:
    value = int(count.replace(",", ""))
    other = value + rng.choice([-1, 1, 2, 3]) if value < 10 else round(value * rng.choice([0.5, 0.7, 1.3, 1.6, 2.1]))
    return f"{other:,}" if "," in count else str(other)


def _other_rank(rank: str, rng: random.Random) -> str:
    value = max(1, int(re.sub(r"\D", "", rank)) + rng.choice([-3, -2, -1, 1, 2, 3]))
    ending = "th" if value % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"


def _overlap(one: str, other: str) -> bool:
    """Whether two texts share a capitalised word: "Toledo, Ohio" and "University of Toledo"."""
    words = {word for word in _WORD.findall(one) if word[0].isupper() and len(word) > 2}
    return bool(words & set(_WORD.findall(other)))
