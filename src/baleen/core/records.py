"""What all records have: JSON out and in, by the types of their fields.

The encoders and decoders of a kind of record are built once, since files hold records by the million.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Self


class Record:
    """Mixin of every record: JSON out and in, by the types of the fields."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The record as plain dicts, lists and scalars, which `json.dumps` takes."""
        form = _form(type(self))
        data = {name: getattr(self, name) for name in form.names}
        for name, encode in form.encoders.items():
            data[name] = encode(data[name])
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The record that `to_json` wrote; keys that are missing take their defaults."""
        form = _form(cls)
        values = {**data}
        for name, decode in form.decoders.items():
            if values.get(name) is not None:
                values[name] = decode(values[name])
        return cls(**values)


Converter = Callable[[Any], Any]
_SCALARS = frozenset({str, int, float, bool, type(None)})


class _Form(typing.NamedTuple):
    """The fields of a kind of record, and the converters of fields whose JSON differs from their value."""

    names: tuple[str, ...]
    encoders: dict[str, Converter]
    decoders: dict[str, Converter]


_FORMS: dict[Any, _Form] = {}


def _form(kind: Any) -> _Form:
    if kind not in _FORMS:
        hints = typing.get_type_hints(kind)
        names = tuple(field.name for field in dataclasses.fields(kind))
        encoders = {name: _encoder(hints[name]) for name in names if not _is_scalar(hints[name])}
        decoders = {name: decode for name in names if (decode := _decoder(hints[name])) is not None}
        _FORMS[kind] = _Form(names, encoders, decoders)
    return _FORMS[kind]


def _is_scalar(hint: Any) -> bool:
    """Whether every value of a type is a scalar or None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(_is_scalar(part) for part in typing.get_args(hint))
    return hint in _SCALARS or typing.get_origin(hint) is typing.Literal


def _encoder(hint: Any) -> Converter:
    """Encoder for a field type."""
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


def _decoder(hint: Any) -> Converter | None:
    """Decoder for a field type, or None if JSON needs no conversion."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return next((kind.from_json for kind in arguments if _is_record(kind)), None)
    if origin is tuple:
        decode = _decoder(_inner(hint))
        if decode is None:
            return tuple
        return lambda value: tuple([None if item is None else decode(item) for item in value])
    return hint.from_json if _is_record(hint) else None


def _inner(hint: Any) -> Any:
    """The item type of a tuple of any length, else None."""
    arguments = typing.get_args(hint)
    return arguments[0] if typing.get_origin(hint) is tuple and arguments[-1:] == (...,) else None


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Record)
