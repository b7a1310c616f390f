"""The columns of a JSON Schema, for JSON values whose schema is in a registry."""

import json
from typing import Any

from barnabas.pipeline.errors import OptionError

_DEPTH_MAX = 20
_PLAIN = {"integer": "bigint", "number": "double", "boolean": "boolean", "string": "string"}
_FORMATS = {"date-time": "timestamp", "date": "date"}


def json_schema_fields(text: str) -> str:
    """As Spark writes them."""
    try:
        schema = json.loads(text)
    except ValueError:
        raise OptionError(f"the registry: expected a JSON Schema, got {text[:200]}") from None
    if not isinstance(schema, dict):
        raise OptionError(f"the registry: expected a JSON Schema of an object, got {text[:200]}")
    found = _resolved(schema, schema, 0)
    if not isinstance(found.get("properties"), dict) or not found["properties"]:
        raise OptionError(
            "the registry: its JSON Schema names no properties: set valueSchema to the columns"
        )
    return _fields(found, schema, 0)


def _fields(schema: dict[str, Any], root: dict[str, Any], depth: int) -> str:
    return ", ".join(
        f"`{str(name).replace('`', '``')}`: {_column(each, root, depth + 1)}"
        for name, each in schema["properties"].items()
    )


def _column(schema: Any, root: dict[str, Any], depth: int) -> str:
    """What has no type of its own is a string: its JSON."""
    found = _resolved(schema, root, depth)
    kind = found.get("type")
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        kind = others[0] if len(others) == 1 else None
    if kind == "object":
        if isinstance(found.get("properties"), dict) and found["properties"]:
            return f"struct<{_fields(found, root, depth)}>"
        if isinstance(found.get("additionalProperties"), dict):
            return f"map<string, {_column(found['additionalProperties'], root, depth + 1)}>"
        return "string"
    if kind == "array":
        if not isinstance(found.get("items"), dict):
            return "array<string>"
        return f"array<{_column(found['items'], root, depth + 1)}>"
    if kind == "string":
        return _FORMATS.get(str(found.get("format")), "string")
    return _PLAIN.get(str(kind), "string")


def _resolved(schema: Any, root: dict[str, Any], depth: int) -> dict[str, Any]:
    """Behind references, and behind "null or this"."""
    if depth > _DEPTH_MAX:
        raise OptionError("the registry: its JSON Schema holds itself, which no column can")
    if not isinstance(schema, dict):
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if not reference.startswith("#/"):
            raise OptionError(
                f"the registry: its JSON Schema refers to {reference[:100]!r}, which is elsewhere:"
                " set valueSchema to the columns"
            )
        found: Any = root
        for part in reference[2:].split("/"):
            found = found.get(part) if isinstance(found, dict) else None
        return _resolved(found, root, depth + 1)
    for choice in ("oneOf", "anyOf"):
        options = schema.get(choice)
        if isinstance(options, list):
            others = [each for each in options if each != {"type": "null"}]
            return _resolved(others[0], root, depth + 1) if len(others) == 1 else {}
    return schema
