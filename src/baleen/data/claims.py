"""A file of claims or questions into claims with ids: JSONL (.gz, .bz2, .zst), or a JSON list.

    {"claim": "..."}                    `claim`, `question` or `text`
    {"id": 7, "question": "..."}        `id`, `_id`, `uid` or `qid`; where there is none, the number of the line

Everything is read and checked before the first claim is worked on.

DATASET:FILE on the command line: a file of questions, and how it is to be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from baleen.core import files
from baleen.core.errors import DatasetError, QueryError
from baleen.core.types import Query, valid_unicode

if TYPE_CHECKING:
    from baleen.data.example import Example


TEXT_KEYS = ("claim", "question", "text")
ID_KEYS = ("id", "_id", "uid", "qid")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim or question, and the id that its result will carry."""

    id: str
    text: str


def read_claims(path: Path) -> list[Claim]:
    """Every claim of a file, in order; whatever is wrong is a DatasetError that names the file and the line."""
    claims: dict[str, Claim] = {}
    for number, place, record in _records(path):
        try:
            claim = _claim(record, number)
        except (ValueError, QueryError) as error:
            raise DatasetError(f"{place}: {error}") from None
        if claim.id in claims:
            raise DatasetError(f"{place}: the id {claim.id!r} stands there twice; expected every id once")
        claims[claim.id] = claim
    if not claims:
        raise DatasetError(f"{path}: an empty file; expected a JSON object a line, or a list of them")
    return list(claims.values())


def check_text(text: str) -> str:
    """The text of a claim or question; an empty one, or one with half a character, is a QueryError."""
    return Query(text).checked().text


def _records(path: Path) -> Iterator[tuple[int, str, Any]]:
    """The number of each record, where it stands, and the record: as bytes where it has a line of its own."""
    try:
        content = files.read_bytes(path)
    except files.READ_ERRORS as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise DatasetError(f"{path}: cannot be read: {reason}") from None
    if content.lstrip().startswith(b"["):
        for number, record in enumerate(_listed(path, content), start=1):
            yield number, f"{path}: record {number}", record
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield number, f"{path}:{number}", line


def _listed(path: Path, content: bytes) -> list[Any]:
    try:
        records: list[Any] = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: not JSON ({error}); expected a list of objects, or one object a line") from None
    return records


def _claim(record: Any, number: int) -> Claim:
    if isinstance(record, bytes):
        record = _decoded(record)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object; expected one with 'claim', 'question' or 'text'")
    key = next((key for key in TEXT_KEYS if isinstance(record.get(key), str)), None)
    if key is None:
        raise ValueError("neither 'claim' nor 'question' nor 'text' is a string there; expected one that is")
    return Claim(_identity(record, number), check_text(record[key]))


def _decoded(line: bytes) -> Any:
    if len(line) > files.MAX_LINE:
        raise ValueError(f"a line of more than {files.MAX_LINE:,} bytes; expected one claim a line")
    try:
        return json.loads(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start + 1}; expected UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}); expected a JSON object a line") from None


def _identity(record: dict[str, Any], number: int) -> str:
    key = next((key for key in ID_KEYS if record.get(key) not in (None, "")), None)
    if key is None:
        return str(number)
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"'{key}' is {json.dumps(value)[:40]}; expected a string or an integer")
    return valid_unicode(str(value))


def parse_dataset_file(item: str) -> tuple[str, Path]:
    """The dataset and the file."""
    dataset, separator, file = item.partition(":")
    if not separator:
        raise typer.BadParameter(f"'{item}': expected DATASET:FILE, as in hover:dev.json")
    return dataset, Path(file)


def read_dataset_file(item: str) -> list[Example]:
    """The questions in it."""
    from baleen.data.formats import read_examples

    return read_examples(*parse_dataset_file(item))
