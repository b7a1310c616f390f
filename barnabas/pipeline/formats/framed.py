"""Framed values for people: any value that names its schema, as JSON, with a schema registry.

In: the bytes of values. Out: JSON text, and which schema it has. ValueError says why not.
Always: at most SCHEMAS_MAX schemas are kept; a schema that the registry does not return is asked
for again after RETRY_S, so that a list of values waits for the registry once.
"""

import io
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.formats.avro import fastavro_module
from barnabas.pipeline.formats.protobuf import message_path, registered_class, row_of
from barnabas.pipeline.formats.registry import (
    SERIALIZED,
    frame_of,
    schema_by_id,
)

SCHEMAS_MAX = 1_000
RETRY_S = 30.0

Read = Callable[[bytes, int], Any]
"""From a framed value and the size of its frame, the row."""


class DecodedValue(NamedTuple):
    """`kind`: Avro, Protobuf or JSON."""

    kind: str
    schema: int | str
    text: str


class FramedValues:
    """Decodes values with the schemas of one registry. Blocks while it asks for a schema."""

    def __init__(self, address: str, now: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._now = now
        self._readers: dict[int | str, tuple[str, Read]] = {}
        self._failed: dict[int | str, tuple[float, str]] = {}

    def decode(self, value: bytes) -> DecodedValue:
        schema, size = frame_of(value)
        kind, read = self._reader(schema)
        try:
            row = read(value, size)
        except Exception as problem:  # decoders raise many kinds, and the bytes are a client's
            raise ValueError(f"not a value of schema {schema} ({kind}): {problem}") from None
        return DecodedValue(kind, schema, json.dumps(row, ensure_ascii=False, default=_plain))

    def _reader(self, schema: int | str) -> tuple[str, Read]:
        known = self._readers.get(schema)
        if known is not None:
            return known
        failed = self._failed.get(schema)
        if failed is not None and self._now() < failed[0]:
            raise ValueError(failed[1])
        try:
            known = self._asked(schema)
        except (PipelineError, ValueError, KeyError, TypeError) as problem:
            if len(self._failed) >= SCHEMAS_MAX:
                self._failed.clear()
            self._failed[schema] = (self._now() + RETRY_S, str(problem))
            raise ValueError(str(problem)) from None
        if len(self._readers) >= SCHEMAS_MAX:
            self._readers.clear()
        self._readers[schema] = known
        return known

    def _asked(self, schema: int | str) -> tuple[str, Read]:
        found = schema_by_id(self._address, schema)
        if found.kind == "AVRO":
            fastavro = fastavro_module()
            parsed = fastavro.parse_schema(json.loads(found.text))

            def avro(value: bytes, size: int) -> Any:
                return fastavro.schemaless_reader(io.BytesIO(value[size:]), parsed, None)

            return "Avro", avro
        if found.kind == "JSON":
            return "JSON", lambda value, size: json.loads(value[size:])
        if found.kind == "PROTOBUF":
            described = schema_by_id(self._address, schema, SERIALIZED)
            classes: dict[tuple[int, ...], Any] = {}  # as many as its file has messages

            def protobuf(value: bytes, size: int) -> Any:
                path, begin = message_path(value, size)
                made = classes.get(tuple(path))
                if made is None:
                    made = registered_class(described, path, self._address)
                    classes[tuple(path)] = made
                return row_of(made.FromString(value[begin:]))

            return "Protobuf", protobuf
        raise ValueError(f"schema {schema} is of kind {found.kind[:50]!r}: Avro, Protobuf or JSON")


def _plain(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
