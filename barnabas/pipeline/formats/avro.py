"""Avro values, bare or with the prefix of a schema registry."""

import io
import json
from collections.abc import Callable
from typing import Any

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.registry import frame_of, latest_schema, schema_by_id
from barnabas.pipeline.formats.typed import TypedOptions, schema_text

_PLAIN = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "bytes": "binary", "string": "string", "fixed": "binary", "enum": "string",
}  # fmt: skip
_LOGICAL = {
    "date": "date", "timestamp-millis": "timestamp", "timestamp-micros": "timestamp",
    "uuid": "string",
}  # fmt: skip


def avro_schema(options: TypedOptions) -> dict[str, Any]:
    """The Avro schema that values are read with."""
    if options.schema is not None:
        text, where = schema_text(options), "valueSchema"
    else:
        found = latest_schema(options.registry or "", options.subject or "")
        text, where = found.text, "the registry"
    try:
        schema = json.loads(text)
    except ValueError:
        raise OptionError(
            f"{where}: expected an Avro schema in JSON, or a file that contains one, got"
            f" {text[:200]!r}"
        ) from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError(f"{where}: expected an Avro record, got {text[:200]}")
    return schema


def avro_fields(schema: dict[str, Any]) -> str:
    """The columns of a record, as Spark writes them."""
    return ", ".join(f"`{f['name']}`: {_column(f['type'], {})}" for f in schema["fields"])


def _column(kind: Any, named: dict[str, str]) -> str:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) == 1:
            return _column(others[0], named)
        raise OptionError(
            f"valueSchema: a union of {kind} cannot be a column; use a union of null and one type"
        )
    if isinstance(kind, str):
        if kind in _PLAIN or kind in named:
            return _PLAIN.get(kind) or named[kind]
        raise OptionError(f"valueSchema: {kind!r} is not an Avro type, or refers to itself")
    logical = kind.get("logicalType")
    if logical == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    name = kind["type"]
    if name == "record":
        inner = ", ".join(f"`{f['name']}`: {_column(f['type'], named)}" for f in kind["fields"])
        found = f"struct<{inner}>"
    elif name == "array":
        return f"array<{_column(kind['items'], named)}>"
    elif name == "map":
        return f"map<string, {_column(kind['values'], named)}>"
    else:
        found = _column(name, named)
    if "name" in kind:
        named[kind["name"]] = found
    return found


def avro_decoder(options: TypedOptions) -> Callable[[bytes], Any]:
    fastavro = fastavro_module()
    wanted = fastavro.parse_schema(avro_schema(options))
    written: dict[int | str, Any] = {}

    def decode(value: bytes) -> Any:
        stream = io.BytesIO(value)
        writer = wanted
        if options.registry is not None:
            number, size = frame_of(value)
            stream.seek(size)
            if number not in written:
                found = schema_by_id(options.registry, number)
                written[number] = fastavro.parse_schema(json.loads(found.text))
            writer = written[number]
        row = fastavro.schemaless_reader(stream, writer, wanted)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
        return row

    return decode


def fastavro_module() -> Any:
    try:
        import fastavro
    except ImportError:
        raise PipelineError("Avro needs fastavro: pip install 'barnabas[schemas]'") from None
    return fastavro
