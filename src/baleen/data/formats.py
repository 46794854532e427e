"""Datasets: the records of each official file, and `read_examples`, which makes them Examples.

    hotpotqa    _id question [answer type supporting_facts]     distractor and fullwiki; `gold_titles` if the
                                                                sentences are not known
    2wiki       the same
    hover       uid claim [label num_hops supporting_facts]     `sentence_ids_hold: false` if the corpus has other
                                                                sentences than those that the ids were given for
    musique     id question [answer] and either paragraphs      the official file: gold passages by title
                                     or gold_ids                gold passages by id, in the order of the paragraphs
    exfever     id claim gold_titles [label]
    own         id text gold [facts label answer hops kind order]   `gold`, `facts`, `order` by id or by title

Keys in brackets may be absent or null, as in test files.  Other keys are ignored.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from baleen.core import files
from baleen.core.errors import DatasetError
from baleen.data import parsing
from baleen.data.example import BY_EITHER, BY_ID, Example
from baleen.data.parsing import InputError, Json, Pairs


def hotpotqa(record: Json) -> Example:
    question = parsing.text(record, "question")
    facts = parsing.pairs(record, "supporting_facts")
    gold = _passages(facts) or parsing.names(record, "gold_titles")
    return Example(
        parsing.identity(record, "_id", question),
        question,
        gold,
        facts,
        answer=parsing.optional_text(record, "answer"),
        hops=len(gold) or None,
        kind=parsing.optional_text(record, "type"),
    )


def hover(record: Json) -> Example:
    claim = parsing.text(record, "claim")
    facts = parsing.pairs(record, "supporting_facts")
    return Example(
        parsing.identity(record, "uid", claim),
        claim,
        _passages(facts),
        () if record.get("sentence_ids_hold") is False else facts,
        label=parsing.label(record),
        hops=parsing.optional_integer(record, "num_hops"),
    )


def exfever(record: Json) -> Example:
    claim = parsing.text(record, "claim")
    gold = parsing.names(record, "gold_titles")
    return Example(
        parsing.identity(record, "id", claim), claim, gold, label=parsing.label(record), hops=len(gold) or None
    )


def own(record: Json) -> Example:
    text = parsing.text(record, "text")
    if "gold" not in record:
        raise InputError("no 'gold'; expected a list of the ids or titles of gold passages, which may be empty")
    gold = parsing.names(record, "gold")
    return Example(
        parsing.identity(record, "id", text),
        text,
        gold,
        parsing.pairs(record, "facts"),
        label=parsing.label(record),
        answer=parsing.optional_text(record, "answer"),
        hops=parsing.optional_integer(record, "hops") or len(gold) or None,
        kind=parsing.optional_text(record, "kind"),
        order=parsing.names(record, "order"),
        named_by=BY_EITHER,
    )


def musique(record: Json) -> Example:
    question = parsing.text(record, "question")
    qid = parsing.identity(record, "id", question)
    steps = _steps(record)
    example = _by_id(qid, question, record, steps) if "gold_ids" in record else _by_title(qid, question, record, steps)
    if steps and not example.gold:
        raise InputError("steps but no gold passage; expected 'gold_ids', or 'paragraphs' that are supporting")
    return example


def _by_id(qid: str, question: str, record: Json, steps: Sequence[int | None]) -> Example:
    """Gold ids are in the order of the paragraphs, so the smallest paragraph number is the first id's."""
    gold = parsing.names(record, "gold_ids")
    numbers = sorted({step for step in steps if step is not None})
    places = dict(zip(numbers, gold, strict=True)) if len(numbers) == len(gold) else {}
    hops = parsing.optional_integer(record, "hops") or len(steps) or None
    return _musique(qid, question, record, gold=gold, order=_order(steps, places), hops=hops, named_by=BY_ID)


def _by_title(qid: str, question: str, record: Json, steps: Sequence[int | None]) -> Example:
    paragraphs = parsing.objects(record, "paragraphs")
    places = {paragraph.get("idx"): parsing.text(paragraph, "title") for paragraph in paragraphs}
    gold = tuple(
        dict.fromkeys(parsing.text(paragraph, "title") for paragraph in paragraphs if paragraph.get("is_supporting"))
    )
    return _musique(qid, question, record, gold=gold, order=_order(steps, places), hops=len(steps) or None)


def _musique(qid: str, question: str, record: Json, **known: Any) -> Example:
    """The kind is the shape of the question's graph, the prefix of MuSiQue's ids: 2hop, 3hop1, 4hop3."""
    shape, separator, _ = qid.partition("__")
    return Example(
        qid, question, answer=parsing.optional_text(record, "answer"), kind=shape if separator else None, **known
    )


def _steps(record: Json) -> list[int | None]:
    """The number of the paragraph that answers each step of the decomposition."""
    steps = parsing.objects(record, "question_decomposition")
    return [parsing.optional_integer(step, "paragraph_support_idx") for step in steps]


def _order(steps: Sequence[int | None], places: dict[Any, str]) -> tuple[str, ...]:
    """The passage of each step, each once; empty if a step has none."""
    named = [places.get(step) for step in steps]
    return tuple(dict.fromkeys(name for name in named if name)) if all(named) else ()


def _passages(facts: Pairs) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in facts))


PARSERS: dict[str, Callable[[Json], Example]] = {
    "hotpotqa": hotpotqa,
    "hover": hover,
    "2wiki": hotpotqa,
    "musique": musique,
    "exfever": exfever,
    "own": own,
}


DATASETS = tuple(PARSERS)

_SUFFIXES = tuple(name + packing for name in (".json", ".jsonl") for packing in ("", *files.COMPRESSED))


def read_examples(dataset: str, path: Path | str) -> list[Example]:
    """Read every example of a file of `dataset`, in order: a JSON list of records, or one record per line.

    Any flaw is a DatasetError of one line that names the file and the record: `path: record 3: ...` in a list,
    `path:3: ...` in lines.  Every id must be unique.
    """
    parse, path = _parser(dataset), Path(path)
    if not path.name.lower().endswith(_SUFFIXES):
        raise DatasetError(f"{path}: unknown format; expected a name that ends in {', '.join(_SUFFIXES)}")
    examples: dict[str, Example] = {}
    for _, place, record in parsing.read_objects(path):
        try:
            example = parse(record)
            if example.qid in examples:
                raise InputError(f"the id {example.qid!r} is repeated; expected every id once")
        except InputError as flaw:
            raise DatasetError(f"{place}: {flaw}") from None
        examples[example.qid] = example
    if not examples:
        raise DatasetError(f"{path}: an empty file; expected a JSON list of records or one JSON object per line")
    return list(examples.values())


def _parser(dataset: str) -> Callable[[Json], Example]:
    if dataset not in PARSERS:
        near = difflib.get_close_matches(dataset.lower(), DATASETS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(DATASETS)}"
        raise DatasetError(f"there is no dataset '{dataset}'; {hint}")
    return PARSERS[dataset]
