"""What a record of each dataset looks like, as the official files have it.

    hotpotqa    _id question [answer type supporting_facts]     distractor and fullwiki; `gold_titles` where the
                                                                sentences are not known
    2wiki       the same
    hover       uid claim [label num_hops supporting_facts]     `sentence_ids_hold: false` where the corpus has other
                                                                sentences than those the ids were given for
    musique     id question [answer] and either paragraphs      the official file: gold passages by title
                                     or gold_ids                gold passages by their ids in a corpus, in the order
                                                                that the paragraphs had
    exfever     id claim gold_titles [label]
    own         id text gold [facts label answer hops kind order]   `gold`, `facts`, `order` by id or by title

What stands in brackets may be absent or null, as it is in test files.  Other keys are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from baleen.corpus import InputError
from baleen.datasets import fields
from baleen.datasets.example import BY_EITHER, BY_ID, Example
from baleen.datasets.fields import Json, Pairs


def hotpotqa(record: Json) -> Example:
    question = fields.text(record, "question")
    facts = fields.pairs(record, "supporting_facts")
    gold = _passages(facts) or fields.names(record, "gold_titles")
    return Example(
        fields.identity(record, "_id", question),
        question,
        gold,
        facts,
        answer=fields.optional_text(record, "answer"),
        hops=len(gold) or None,
        kind=fields.optional_text(record, "type"),
    )


def hover(record: Json) -> Example:
    claim = fields.text(record, "claim")
    facts = fields.pairs(record, "supporting_facts")
    return Example(
        fields.identity(record, "uid", claim),
        claim,
        _passages(facts),
        () if record.get("sentence_ids_hold") is False else facts,
        label=fields.label(record),
        hops=fields.optional_integer(record, "num_hops"),
    )


def exfever(record: Json) -> Example:
    claim = fields.text(record, "claim")
    gold = fields.names(record, "gold_titles")
    return Example(
        fields.identity(record, "id", claim), claim, gold, label=fields.label(record), hops=len(gold) or None
    )


def own(record: Json) -> Example:
    text = fields.text(record, "text")
    if "gold" not in record:
        raise InputError("no 'gold'; expected a list of the ids or titles of gold passages, which may be empty")
    gold = fields.names(record, "gold")
    return Example(
        fields.identity(record, "id", text),
        text,
        gold,
        fields.pairs(record, "facts"),
        label=fields.label(record),
        answer=fields.optional_text(record, "answer"),
        hops=fields.optional_integer(record, "hops") or len(gold) or None,
        kind=fields.optional_text(record, "kind"),
        order=fields.names(record, "order"),
        named_by=BY_EITHER,
    )


def musique(record: Json) -> Example:
    question = fields.text(record, "question")
    qid = fields.identity(record, "id", question)
    steps = _steps(record)
    example = _by_id(qid, question, record, steps) if "gold_ids" in record else _by_title(qid, question, record, steps)
    if steps and not example.gold:
        raise InputError("steps but no gold passage; expected 'gold_ids', or 'paragraphs' that are supporting")
    return example


def _by_id(qid: str, question: str, record: Json, steps: Sequence[int | None]) -> Example:
    """The gold ids stand in the order of the paragraphs, so that the smallest paragraph number is the first id's."""
    gold = fields.names(record, "gold_ids")
    numbers = sorted({step for step in steps if step is not None})
    places = dict(zip(numbers, gold, strict=True)) if len(numbers) == len(gold) else {}
    hops = fields.optional_integer(record, "hops") or len(steps) or None
    return _musique(qid, question, record, gold=gold, order=_order(steps, places), hops=hops, named_by=BY_ID)


def _by_title(qid: str, question: str, record: Json, steps: Sequence[int | None]) -> Example:
    paragraphs = fields.objects(record, "paragraphs")
    places = {paragraph.get("idx"): fields.text(paragraph, "title") for paragraph in paragraphs}
    gold = tuple(
        dict.fromkeys(fields.text(paragraph, "title") for paragraph in paragraphs if paragraph.get("is_supporting"))
    )
    return _musique(qid, question, record, gold=gold, order=_order(steps, places), hops=len(steps) or None)


def _musique(qid: str, question: str, record: Json, **known: Any) -> Example:
    """The kind is the shape of the question's graph, which MuSiQue writes before its ids: 2hop, 3hop1, 4hop3."""
    shape, separator, _ = qid.partition("__")
    return Example(
        qid, question, answer=fields.optional_text(record, "answer"), kind=shape if separator else None, **known
    )


def _steps(record: Json) -> list[int | None]:
    """For each step of the decomposition the number of the paragraph that answers it."""
    steps = fields.objects(record, "question_decomposition")
    return [fields.optional_integer(step, "paragraph_support_idx") for step in steps]


def _order(steps: Sequence[int | None], places: dict[Any, str]) -> tuple[str, ...]:
    """The passage of each step, each once; nothing where a step has none."""
    named = [places.get(step) for step in steps]
    return tuple(dict.fromkeys(name for name in named if name)) if all(named) else ()


def _passages(facts: Pairs) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in facts))


SHAPES: dict[str, Callable[[Json], Example]] = {
    "hotpotqa": hotpotqa,
    "hover": hover,
    "2wiki": hotpotqa,
    "musique": musique,
    "exfever": exfever,
    "own": own,
}
