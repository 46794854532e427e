"""Questions made from drafts: for an entity, a year, yes or no, or the first of two.

in place    "A was directed by a filmmaker who was born in which city?"         the entity that the draft asks for
year        "In what year was the club that A played for founded?"
yes or no   "Was A born before B?"  "Is it true that A played for ...?"         no if the statement was refuted
first       "Who was born first, A or B?"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baleen.synthesis.drafts import BRIDGE, COMPARISON, TREE, Draft
from baleen.synthesis.lexicon import COPULAS
from baleen.synthesis.pages import Page
from baleen.synthesis.phrases import Part

YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer; `draft` is its source, with the facts that the answer rests on."""

    text: str
    answer: str
    draft: Draft


def in_place(draft: Draft, pages: Sequence[Page]) -> Question | None:
    """The question of a draft that asks for an entity; None for another draft."""
    if draft.asked is None:
        return None
    return Question(draft.question, pages[draft.asked].name, draft)


def yes_or_no(draft: Draft, *, holds: bool) -> Question:
    """Ask whether a statement is true: its copula first, or "Is it true that"."""
    subject, said = (_text(parts) for parts in (draft.subject, draft.predicate))
    verb, _, rest = said.partition(" ")
    if verb in COPULAS and len(subject.split()) <= 12 and draft.kind != TREE:
        text = f"{verb.capitalize()} {subject} {rest}?"
    else:
        text = f"Is it true that {subject} {said}?"
    return Question(text, YES if holds else NO, draft)


def year(draft: Draft, pages: Sequence[Page]) -> Question | None:
    """Ask when the subject of a bridge of two pages was founded."""
    if draft.kind != BRIDGE or len(draft.order) != 2:
        return None
    page = pages[draft.order[1]]
    if page.begun is None:
        return None
    verb, begun, sid = page.begun
    kept = [fact for fact in draft.facts if fact[0] != page.number or fact[1] == page.defined]
    facts = tuple(dict.fromkeys([*kept, (page.number, sid)]))
    said = (Part(f"was {verb} in {begun}", page.number, sid),)
    asked = Draft(BRIDGE, draft.subject, said, facts, draft.order, draft.named)
    return Question(f"In what year was {_text(draft.subject)} {verb}?", str(begun), asked)


def first(draft: Draft, pages: Sequence[Page]) -> Question | None:
    """Ask which of two named pages was first, unless their years are equal."""
    if draft.kind != COMPARISON or len(draft.order) != 2:
        return None
    one, two = (pages[number] for number in draft.order)
    if one.begun is None or two.begun is None or one.begun[1] == two.begun[1]:
        return None
    earlier = one if one.begun[1] < two.begun[1] else two
    text = f"{'Who' if one.person else 'Which'} was {one.begun[0]} first, {one.subject} or {two.subject}?"
    return Question(text, earlier.name, draft)


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts)
