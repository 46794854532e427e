"""Settings as frozen dataclasses, built from mappings and TOML files; an unknown key names the nearest known one.

Each stage keeps its dataclass beside its code (`RunConfig` in `hops/config.py`, `EncoderConfig` in
`models/tokens.py`).  An argument of a call overrides a file, and a file overrides the default.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from baleen.core.errors import ConfigError

Config = TypeVar("Config")

NO_SETTING = {"setting": False}
# Removed settings, with the last release that reads them, and settings with a new name.
REMOVED = dict.fromkeys(("distillation", "distillation_temperature", "positives", "rounding", "teacher"), "0.1.0")
RENAMED = {
    "least_passages": "'min_passages'",
    "named_bonus": "'mention_boost'",
    "stand_in": "'untrained'",
    "threshold": "'keep', 'read' and 'final'",
}


def from_mapping(kind: type[Config], settings: Mapping[str, Any], source: str = "settings") -> Config:
    """Build the dataclass `kind` from `settings`; an unknown key or a value of the wrong type is a ConfigError.

    A field of a dataclass type is built from a mapping, a tuple of them from a list of mappings; errors name the path
    to the bad value.  Fields with the metadata `NO_SETTING` cannot be set by files.
    """
    assert dataclasses.is_dataclass(kind)
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.metadata != NO_SETTING}
    values = {}
    for key, value in settings.items():
        if key not in fields:
            _refuse_if_removed(key, f"{source}: ")
            raise ConfigError(f"{source}: there is no setting '{key}'{did_you_mean(key, fields)}")
        values[key] = _convert(hints[key], value, f"{source}: {key}")
        if not _fits(hints[key], values[key]):
            raise ConfigError(f"{source}: {key} = {value!r} should be {_name(hints[key])}")
    missing = [name for name, field in fields.items() if name not in values and not _has_default(field)]
    if missing:
        raise ConfigError(f"{source}: the setting '{missing[0]}' is missing, and has no default")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def refuse_removed(settings: Mapping[str, Any], source: str) -> None:
    """Raise a ConfigError for a setting that only an older release reads, here or in a nested table."""
    for key, value in settings.items():
        _refuse_if_removed(key, f"{source}: ")
        if isinstance(value, Mapping):
            refuse_removed(value, f"{source}: {key}")


def _refuse_if_removed(key: str, where: str = "") -> None:
    if key in REMOVED:
        raise ConfigError(f"{where}the setting '{key}' is gone; leave it out, or use baleen {REMOVED[key]}")
    if key in RENAMED:
        raise ConfigError(f"{where}the setting '{key}' is now {RENAMED[key]}")


def override(config: Config, **changes: Any) -> Config:
    """Copy `config` with every change that is not None."""
    given = {key: value for key, value in changes.items() if value is not None}
    assert dataclasses.is_dataclass(config)
    assert not isinstance(config, type)
    known = {f.name for f in dataclasses.fields(config)}
    unknown = given.keys() - known
    if unknown:
        key = min(unknown)
        _refuse_if_removed(key)
        raise ConfigError(f"there is no setting '{key}'{did_you_mean(key, known)}")
    return dataclasses.replace(config, **given)


def to_mapping(config: Any) -> dict[str, Any]:
    """The settings as JSON values, to be saved beside an output."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(config).items()
    }


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a ConfigError names the file."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _convert(hint: Any, value: Any, source: str) -> Any:
    """Convert a value of a file to a field's type: mappings to dataclasses, lists to tuples."""
    kinds = _choices(hint)
    if isinstance(value, list):
        inner = next((typing.get_args(kind)[0] for kind in kinds if typing.get_origin(kind) is tuple), None)
        return tuple(_convert(inner, item, f"{source}[{place}]") for place, item in enumerate(value))
    if isinstance(value, Mapping):
        for kind in kinds:
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                return from_mapping(kind, value, source)
    return value


def _choices(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def did_you_mean(key: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    known = set(known)
    near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(sorted(known))}"


def _fits(hint: Any, value: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(kind, value) for kind in inner)
    if origin is typing.Literal:
        return value in inner
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(inner[0], item) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(inner[1], item) for item in value.values())
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _name(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(choice) for choice in inner)
    if origin is tuple:
        return "a list of tables" if dataclasses.is_dataclass(inner[0]) else f"a list of {_name(inner[0])}"
    if origin is Mapping:
        return f"a table of {_name(inner[1])}"
    if dataclasses.is_dataclass(hint):
        return "a table"
    return getattr(hint, "__name__", None) or str(hint)
