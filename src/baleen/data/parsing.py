"""One key of a record: there and of the right type, or an InputError `what was found; what is expected`."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from baleen.data.corpus import InputError
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
# HoVer as it is redistributed with numbers for labels; -1 stands in its test file.
_NUMBERS = {0: NOT_SUPPORTED, 1: SUPPORTED, -1: None}


def text(record: Json, key: str) -> str:
    """A string with something in it."""
    value = _needed(record, key, "a string")
    if not isinstance(value, str):
        raise InputError(f"'{key}' is {kind(value)}; expected a string")
    if not value.strip():
        raise InputError(f"'{key}' is empty; expected at least one word")
    return _whole(key, value)


def optional_text(record: Json, key: str) -> str | None:
    """A string, or None where it is absent, null or empty."""
    return text(record, key) if record.get(key) not in (None, "") else None


def identity(record: Json, key: str, content: str) -> str:
    """The id as a string; where it is there but empty, a digest of `content` that stays from one file to the next."""
    value = _needed(record, key, "a string or an integer")
    if value is None or value == "":
        return "text-" + blake2b(content.encode(), digest_size=8).hexdigest()
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise InputError(f"'{key}' is {kind(value)}; expected a string or an integer")
    return _whole(key, str(value))


def optional_integer(record: Json, key: str) -> int | None:
    value = record.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise InputError(f"'{key}' is {kind(value)}; expected an integer")
    return value


def names(record: Json, key: str) -> tuple[str, ...]:
    """Titles or ids, each once; none where the key is absent or null."""
    return tuple(dict.fromkeys(_name(key, name) for name in _list(record, key)))


def pairs(record: Json, key: str) -> Pairs:
    """(title or id, sentence id) pairs, each once; none where the key is absent or null."""
    return tuple(dict.fromkeys(_pair(key, item) for item in _list(record, key)))


def objects(record: Json, key: str) -> list[dict[str, Any]]:
    """Objects in a list; none where the key is absent or null."""
    items = _list(record, key)
    for item in items:
        if not isinstance(item, dict):
            raise InputError(f"'{key}' holds {kind(item)}; expected objects")
    return items


def label(record: Json) -> str | None:
    """One of LABELS, from any of the datasets' spellings; None where it is absent or null."""
    value = record.get("label")
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value in _NUMBERS:
        return _NUMBERS[value]
    spelling = " ".join(str(value).replace("_", " ").casefold().split())
    if not isinstance(value, str) or spelling not in _SPELLINGS:
        raise InputError(
            f"'label' is {reprlib.repr(value)}; expected one of {', '.join(sorted(set(_SPELLINGS.values())))}"
        )
    return _SPELLINGS[spelling]


def kind(value: Any) -> str:
    kinds = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value), "null")


def _needed(record: Json, key: str, expected: str) -> Any:
    if key not in record:
        keys = ", ".join(map(repr, list(record)[:8])) or "(none)"
        raise InputError(f"no '{key}' among the keys {keys}; expected {expected}")
    return record[key]


def _list(record: Json, key: str) -> list[Any]:
    value = record.get(key)
    if value is not None and not isinstance(value, list):
        raise InputError(f"'{key}' is {kind(value)}; expected a list")
    return value or []


def _name(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InputError(f"'{key}' holds {kind(value)}; expected titles or ids")
    if not str(value).strip():
        raise InputError(f"'{key}' holds an empty name; expected titles or ids")
    return _whole(key, str(value))


def _pair(key: str, item: Any) -> tuple[str, int]:
    if not isinstance(item, list) or len(item) != 2:
        raise InputError(f"'{key}' holds {reprlib.repr(item)}; expected pairs of a title or id and a sentence id")
    if not isinstance(item[1], int) or isinstance(item[1], bool):
        raise InputError(
            f"'{key}' holds {reprlib.repr(item)}, whose sentence id is {kind(item[1])}; expected an integer"
        )
    return _name(key, item[0]), item[1]


def _whole(key: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"'{key}' has an escaped lone surrogate; expected whole characters") from None
    return value
