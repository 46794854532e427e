"""A small validator of JSON schemas: the keywords that the schema of a trace uses, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from baleen.core.types import Trace


def faults(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str = "$") -> Iterator[str]:
    """The faults of a value by the JSON schema keywords that the schema uses; any other keyword is a fault itself."""
    known = {"type", "properties", "required", "additionalProperties", "items", "$ref", "enum", "const", "anyOf"}
    if unknown := schema.keys() - known - {"$schema", "$defs", "title"}:
        yield f"{place}: unknown keywords {unknown}"
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    if "anyOf" in schema and all(list(faults(value, each, root, place)) for each in schema["anyOf"]):
        yield f"{place}: {value!r} fits none"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r} is not {schema['const']!r}"
    if "type" in schema and not is_of_type(value, schema["type"]):
        yield f"{place}: {value!r} is no {schema['type']}"
    elif schema.get("type") == "array":
        for number, item in enumerate(value):
            yield from faults(item, schema["items"], root, f"{place}[{number}]")
    elif schema.get("type") == "object":
        named = schema.get("properties", {})
        yield from (f"{place}: {key} is missing" for key in schema.get("required", ()) if key not in value)
        for key, item in value.items():
            rule = named.get(key, schema.get("additionalProperties", True))
            if rule is False:
                yield f"{place}: {key} is not allowed"
            elif rule is not True:
                yield from faults(item, rule, root, f"{place}.{key}")


def is_of_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    kinds = {"string": str, "integer": int, "number": (int, float), "array": list, "object": dict, "null": type(None)}
    return isinstance(value, kinds.get(name, ()))


def check_schema(document: Mapping[str, Any]) -> None:
    schema = Trace.json_schema()
    assert list(faults(json.loads(json.dumps(document)), schema, schema)) == []
