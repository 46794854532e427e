"""Files of claims or questions: JSONL or a JSON list, plain or compressed (.gz, .bz2, .zst).

{"claim": "..."}                    `claim`, `question` or `text`
{"id": 7, "question": "..."}        `id`, `_id`, `uid` or `qid`; without one, the number of the line
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from baleen.core.errors import DatasetError, QueryError
from baleen.core.types import Query, valid_unicode
from baleen.data import parsing
from baleen.data.parsing import InputError, Json

TEXT_KEYS = ("claim", "question", "text")
ID_KEYS = ("id", "_id", "uid", "qid")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim or question, and the id of its result."""

    id: str
    text: str


def read_claims(path: Path) -> list[Claim]:
    """Read and check every claim of a file; a DatasetError names the file and the line."""
    claims: dict[str, Claim] = {}
    for number, place, record in parsing.read_objects(path):
        try:
            claim = _claim(record, number)
            if claim.id in claims:
                raise InputError(f"the id {claim.id!r} is repeated; expected every id once")
        except (InputError, QueryError) as error:
            raise DatasetError(f"{place}: {error}") from None
        claims[claim.id] = claim
    if not claims:
        raise DatasetError(f"{path}: an empty file; expected a JSON list of objects or one JSON object per line")
    return list(claims.values())


def _claim(record: Json, number: int) -> Claim:
    key = next((key for key in TEXT_KEYS if isinstance(record.get(key), str)), None)
    if key is None:
        raise InputError("none of 'claim', 'question' and 'text' is a string; expected one that is")
    return Claim(_identity(record, number), Query(record[key]).checked().text)


def _identity(record: Json, number: int) -> str:
    key = next((key for key in ID_KEYS if record.get(key) not in (None, "")), None)
    if key is None:
        return str(number)
    return valid_unicode(str(parsing.value(record, key, "a string or an integer", str, int)))
