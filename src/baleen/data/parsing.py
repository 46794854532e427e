"""Records of JSON files, and their typed fields.  Errors say what was found and what was expected.

read_objects        the records of a JSON list, or of a file with an object per line
decode              one JSON document
text, identity, names, pairs, objects, label, ...       one key of a record
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from baleen.core import files
from baleen.core.errors import DatasetError
from baleen.data.example import NOT_ENOUGH, NOT_SUPPORTED, REFUTED, SUPPORTED

Json = Mapping[str, Any]
Pairs = tuple[tuple[str, int], ...]

_SPELLINGS = {
    "supported": SUPPORTED,
    "support": SUPPORTED,
    "supports": SUPPORTED,
    "refuted": REFUTED,
    "refute": REFUTED,
    "refutes": REFUTED,
    "not enough information": NOT_ENOUGH,
    "not enough info": NOT_ENOUGH,
    "not supported": NOT_SUPPORTED,
}
# Redistributions of HoVer have numbers for labels, and -1 in the test file.
_NUMBERS = {0: NOT_SUPPORTED, 1: SUPPORTED, -1: None}
_EXPECTED = "a JSON list of records or one JSON object per line"


class InputError(ValueError):
    """A flaw in one record: what was found, and what was expected."""


def read_objects(path: Path) -> Iterator[tuple[int, str, Json]]:
    """Read (number, place, object) of every record of a file, compressed or not.

    The number is the line's, or the record's in a JSON list, and `place` names file and number.  Any flaw is a
    DatasetError.
    """
    for number, place, record in _records(path):
        try:
            if isinstance(record, bytes):
                if len(record) > files.MAX_LINE:
                    raise InputError(f"a line of more than {files.MAX_LINE:,} bytes; expected one record per line")
                record = decode(record, _EXPECTED, _DECODER)
            if not isinstance(record, dict):
                raise InputError(f"{kind(record)}; expected a JSON object")
        except InputError as flaw:
            raise DatasetError(f"{place}: {flaw}") from None
        yield number, place, record


def _records(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Number and place of each record, and the record: decoded, or a line as bytes."""
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file") from None
    except files.READ_ERRORS as error:
        raise DatasetError(f"{path}: cannot be read ({error}); expected a complete, undamaged file") from None
    if content.lstrip().startswith(b"["):
        try:
            listed = decode(content, _EXPECTED, _DECODER)
        except InputError as flaw:
            raise DatasetError(f"{path}: {flaw}") from None
        for number, record in enumerate(listed, 1):
            yield number, f"{path}: record {number}", record
        return
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield number, f"{path}:{number}", line


def _without_context(record: dict[str, Any]) -> dict[str, Any]:
    """Drop HotPotQA's distractors, nine tenths of its file, as soon as a record is decoded."""
    record.pop("context", None)
    return record


_DECODER = json.JSONDecoder(object_hook=_without_context)


def decode(content: bytes, expected: str, decoder: json.JSONDecoder) -> Any:
    """Decode a JSON document; an InputError says that `expected` was expected."""
    try:
        return decoder.decode(content.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"invalid UTF-8 at byte {error.start + 1}; expected UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error}); expected {expected}") from None


def value(record: Json, key: str, expected: str, *kinds: type, alias: str = "") -> Any:
    """The value of a key that must be there and of one of the kinds; `alias` is another name to mention."""
    if key not in record:
        name = f"'{key}' or '{alias}'" if alias else f"'{key}'"
        keys = ", ".join(map(repr, list(record)[:8])) or "(none)"
        raise InputError(f"no {name} among the keys {keys}; expected {expected}")
    found = record[key]
    if not isinstance(found, kinds) or isinstance(found, bool):
        raise InputError(f"'{key}' is {kind(found)}; expected {expected}")
    return found


def text(record: Json, key: str) -> str:
    """A string that is not blank."""
    found = value(record, key, "a string", str)
    if not found.strip():
        raise InputError(f"'{key}' is empty; expected at least one word")
    return _check_unicode(key, found)


def optional_text(record: Json, key: str) -> str | None:
    """A string, or None if it is absent, null or empty."""
    return text(record, key) if record.get(key) not in (None, "") else None


def identity(record: Json, key: str, content: str) -> str:
    """The id as a string; for an empty or null one, a digest of `content` that is the same in every file."""
    found = value(record, key, "a string or an integer", str, int, type(None))
    if found is None or found == "":
        return "text-" + blake2b(content.encode(), digest_size=8).hexdigest()
    return _check_unicode(key, str(found))


def optional_integer(record: Json, key: str) -> int | None:
    """An integer, or None if it is absent or null."""
    found: int | None = value(record, key, "an integer", int, type(None)) if key in record else None
    return found


def names(record: Json, key: str) -> tuple[str, ...]:
    """Titles or ids, each once; none if the key is absent or null."""
    return tuple(dict.fromkeys(_name(key, name) for name in _list(record, key)))


def pairs(record: Json, key: str) -> Pairs:
    """(title or id, sentence id) pairs, each once; none if the key is absent or null."""
    return tuple(dict.fromkeys(_pair(key, item) for item in _list(record, key)))


def objects(record: Json, key: str) -> list[dict[str, Any]]:
    """The objects of a list; none if the key is absent or null."""
    items = _list(record, key)
    for item in items:
        if not isinstance(item, dict):
            raise InputError(f"'{key}' holds {kind(item)}; expected objects")
    return items


def label(record: Json) -> str | None:
    """One of LABELS, from any of the datasets' spellings; None if it is absent or null."""
    found = record.get("label")
    if found is None:
        return None
    if isinstance(found, int) and not isinstance(found, bool) and found in _NUMBERS:
        return _NUMBERS[found]
    spelling = " ".join(str(found).replace("_", " ").casefold().split())
    if not isinstance(found, str) or spelling not in _SPELLINGS:
        raise InputError(
            f"'label' is {reprlib.repr(found)}; expected one of {', '.join(sorted(set(_SPELLINGS.values())))}"
        )
    return _SPELLINGS[spelling]


def kind(found: Any) -> str:
    """The JSON type of a value, for messages."""
    kinds = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(found), "null")


def _list(record: Json, key: str) -> list[Any]:
    return (value(record, key, "a list", list, type(None)) if key in record else None) or []


def _name(key: str, item: Any) -> str:
    if isinstance(item, bool) or not isinstance(item, (str, int)):
        raise InputError(f"'{key}' holds {kind(item)}; expected titles or ids")
    if not str(item).strip():
        raise InputError(f"'{key}' holds an empty name; expected titles or ids")
    return _check_unicode(key, str(item))


def _pair(key: str, item: Any) -> tuple[str, int]:
    if not isinstance(item, list) or len(item) != 2:
        raise InputError(f"'{key}' holds {reprlib.repr(item)}; expected pairs of a title or id and a sentence id")
    if not isinstance(item[1], int) or isinstance(item[1], bool):
        raise InputError(
            f"'{key}' holds {reprlib.repr(item)}, whose sentence id is {kind(item[1])}; expected an integer"
        )
    return _name(key, item[0]), item[1]


def _check_unicode(key: str, string: str) -> str:
    try:
        string.encode()
    except UnicodeEncodeError:
        raise InputError(f"'{key}' contains an unpaired surrogate; expected valid Unicode") from None
    return string
