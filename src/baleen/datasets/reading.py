"""A dataset's file into examples."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from baleen import bytelines
from baleen.corpus import InputError
from baleen.datasets import fields
from baleen.datasets.example import Example
from baleen.datasets.fields import Json
from baleen.datasets.shapes import SHAPES
from baleen.errors import DatasetError

DATASETS = tuple(SHAPES)

_SUFFIXES = tuple(name + packed for name in (".json", ".jsonl") for packed in ("", *bytelines.PACKED))


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
        raise InputError(f"{fields.kind(record)}; expected a JSON object")
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
        return bytelines.content(path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file") from None
    except bytelines.BROKEN as error:
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
