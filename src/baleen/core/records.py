"""What all records have: JSON out and in, by the types of their fields.

How each kind is written and read is settled once, since files hold records by the million.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self


class Record:
    """Mixin of every record: JSON out and in, by the types of the fields."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists and scalars: what `json.dumps` takes."""
        form = _form(type(self))
        data = {name: getattr(self, name) for name in form.names}
        for name, plain in form.plain.items():
            data[name] = plain(data[name])
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The record that `to_json` described; keys that are missing take their defaults."""
        form = _form(cls)
        values = {**data}
        for name, revive in form.revive.items():
            if values.get(name) is not None:
                values[name] = revive(values[name])
        return cls(**values)


_Way = Callable[[Any], Any]
_SCALARS = frozenset({str, int, float, bool, type(None)})


class _Form(typing.NamedTuple):
    """The fields of a kind of record, and what becomes of those that are not written and read as they are."""

    names: tuple[str, ...]
    plain: dict[str, _Way]
    revive: dict[str, _Way]


_FORMS: dict[Any, _Form] = {}


def _form(kind: Any) -> _Form:
    """Looked up once for each kind of record."""
    if kind not in _FORMS:
        hints = typing.get_type_hints(kind)
        names = tuple(field.name for field in dataclasses.fields(kind))
        plain = {name: _plainer(hints[name]) for name in names if not _is_scalar(hints[name])}
        revive = {name: way for name in names if (way := _reviver(hints[name])) is not None}
        _FORMS[kind] = _Form(names, plain, revive)
    return _FORMS[kind]


def _is_scalar(hint: Any) -> bool:
    """Whether every value of a type is a scalar, or None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(_is_scalar(part) for part in typing.get_args(hint))
    return hint in _SCALARS or typing.get_origin(hint) is typing.Literal


def _plainer(hint: Any) -> _Way:
    """What makes plain values of a type."""
    inner = _inner(hint)
    if _is_record(inner):
        return lambda value: [item.to_json() for item in value]
    return list if inner is not None and _is_scalar(inner) else _plain


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _reviver(hint: Any) -> _Way | None:
    """What makes values of a type, None apart, out of plain ones; None where they are the same."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in arguments if _is_record(kind)]
        return partial(_revive_one_of, kinds) if kinds else None
    if origin is tuple:
        way = _reviver(_inner(hint))
        return tuple if way is None else lambda value: tuple([None if item is None else way(item) for item in value])
    return hint.from_json if _is_record(hint) else None


def _revive_one_of(kinds: Sequence[type[Record]], value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    fitting = next((kind for kind in kinds if set(_form(kind).names) >= value.keys()), None)
    if fitting is None:
        raise TypeError(f"neither {' nor '.join(kind.__name__ for kind in kinds)} has the keys {', '.join(value)}")
    return fitting.from_json(value)


def _inner(hint: Any) -> Any:
    """The type of the items of a tuple of any length, else None."""
    arguments = typing.get_args(hint)
    return arguments[0] if typing.get_origin(hint) is tuple and arguments[-1:] == (...,) else None


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Record)
