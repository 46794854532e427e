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

A dataset's file into examples.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from baleen.core import files
from baleen.core.errors import DatasetError
from baleen.data import parsing
from baleen.data.corpus import InputError
from baleen.data.example import BY_EITHER, BY_ID, Example
from baleen.data.parsing import Json, Pairs


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
    """The gold ids stand in the order of the paragraphs, so that the smallest paragraph number is the first id's."""
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
    """The kind is the shape of the question's graph, which MuSiQue writes before its ids: 2hop, 3hop1, 4hop3."""
    shape, separator, _ = qid.partition("__")
    return Example(
        qid, question, answer=parsing.optional_text(record, "answer"), kind=shape if separator else None, **known
    )


def _steps(record: Json) -> list[int | None]:
    """For each step of the decomposition the number of the paragraph that answers it."""
    steps = parsing.objects(record, "question_decomposition")
    return [parsing.optional_integer(step, "paragraph_support_idx") for step in steps]


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


DATASETS = tuple(SHAPES)

_SUFFIXES = tuple(name + packed for name in (".json", ".jsonl") for packed in ("", *files.COMPRESSED))


def read_examples(dataset: str, path: Path | str) -> list[Example]:
    """Every example of an official file of `dataset`, in order: a JSON list of records, or one record a line.

    Whatever is wrong is a DatasetError of one line that names the file and the record: `path: record 3: ...` in a
    list, `path:3: ...` in lines.  An id may stand only once.
    """
    shape, path = _shape(dataset), Path(path)
    examples: dict[str, Example] = {}
    for place, record in _records(path):
        try:
            example = _example(shape, record)
            if example.qid in examples:
                raise InputError(f"the id {example.qid!r} is repeated; expected every id once")
        except InputError as flaw:
            raise DatasetError(f"{place}: {flaw}") from None
        examples[example.qid] = example
    if not examples:
        raise DatasetError(f"{path}: an empty file; expected a JSON list of records or one JSON object a line")
    return list(examples.values())


def _shape(dataset: str) -> Callable[[Json], Example]:
    if dataset not in SHAPES:
        near = difflib.get_close_matches(dataset.lower(), DATASETS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(DATASETS)}"
        raise DatasetError(f"there is no dataset '{dataset}'; {hint}")
    return SHAPES[dataset]


def _example(shape: Callable[[Json], Example], record: Any) -> Example:
    record = _decoded(record) if isinstance(record, bytes) else record
    if not isinstance(record, dict):
        raise InputError(f"{parsing.kind(record)}; expected a JSON object")
    return shape(record)


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Where each record stands, and the record: as bytes where it has a line of its own."""
    content = _content(path)
    if content.lstrip().startswith(b"["):
        for number, record in enumerate(_listed(path, content), 1):
            yield f"{path}: record {number}", record
    else:
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip():
                yield f"{path}:{number}", line


def _content(path: Path) -> bytes:
    if not path.name.lower().endswith(_SUFFIXES):
        raise DatasetError(f"{path}: cannot tell the format; expected a name that ends in {', '.join(_SUFFIXES)}")
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file") from None
    except files.READ_ERRORS as error:
        raise DatasetError(f"{path}: cannot be read ({error}); expected a complete, undamaged file") from None


def _listed(path: Path, content: bytes) -> list[Any]:
    try:
        records: list[Any] = _decoded(content)
    except InputError as flaw:
        raise DatasetError(f"{path}: {flaw}") from None
    return records


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content.decode(), object_hook=_lean)
    except UnicodeDecodeError as error:
        raise InputError(f"invalid UTF-8 at byte {error.start + 1}; expected UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error}); expected a JSON list of records or one JSON object a line") from None


def _lean(record: dict[str, Any]) -> dict[str, Any]:
    """Without HotPotQA's distractors: nine tenths of its file, let go as soon as a record is complete."""
    record.pop("context", None)
    return record
