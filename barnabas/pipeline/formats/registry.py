"""Schemas from a Confluent-style registry, by schema id or the latest of a subject, and framed
values.

A framed value is a byte 0, the schema id in four bytes, and the value; or a byte 1, the schema's
GUID in 16 bytes, and the value. With Protobuf, the path of the message in the schema's file comes
before the value. The frame may also be in a header of the record, HEADER, instead of the value.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple
from uuid import UUID

from barnabas.pipeline.errors import OptionError, PipelineError

HEADER = "__value_schema_id"
FRAME_SIZE = 5
_GUID_SIZE = 17
SERIALIZED = "?format=serialized"  # Protobuf as a descriptor, not as text
_TIMEOUT_S = 10
_NOT_FOUND = 404
_ANSWER_SIZE_MAX = 4 * 1024 * 1024
_REFERENCES_MAX = 100


class RegisteredSchema(NamedTuple):
    """A schema. `references`: the files it imports, as name, subject, version. `kind`: AVRO,
    PROTOBUF or JSON."""

    text: str
    references: list[tuple[str, str, int]]
    kind: str = "AVRO"


class Frame(NamedTuple):
    """The schema of a value: its id, or its GUID; and the size of the frame."""

    schema: int | str
    size: int


def frame_of(value: bytes) -> Frame:
    """ValueError if the value is not framed."""
    if len(value) >= FRAME_SIZE and value[0] == 0:
        return Frame(int.from_bytes(value[1:FRAME_SIZE]), FRAME_SIZE)
    if len(value) >= _GUID_SIZE and value[0] == 1:
        return Frame(str(UUID(bytes=value[1:_GUID_SIZE])), _GUID_SIZE)
    raise ValueError(
        "not framed by a schema registry: a byte 0 and a schema id are missing, and there is no"
        f" header {HEADER} (headers are read with includeHeaders)"
    )


def with_frames(values: list[bytes | None], headers: Any) -> list[bytes | None]:
    """The values with the frames that are in headers of their records. `headers`: an Arrow
    column.
    """
    if headers.null_count == len(headers):
        return values
    found = list(values)
    for number, pairs in enumerate(headers.to_pylist()):
        frames = [each["value"] for each in pairs or () if each["key"] == HEADER]
        value = values[number]
        if frames and frames[-1] and value is not None:
            found[number] = frames[-1] + value
    return found


def latest_schema(address: str, subject: str, form: str = "") -> RegisteredSchema:
    return schema_of(address, subject, "latest", form)


def schema_of(address: str, subject: str, version: int | str, form: str = "") -> RegisteredSchema:
    name = urllib.parse.quote(subject, safe="")
    return _schema(address, f"subjects/{name}/versions/{version}{form}", subject)


def schema_by_id(address: str, id_: int | str, form: str = "") -> RegisteredSchema:
    """By id or GUID. ValueError if the registry has no such schema."""
    kind = "ids" if isinstance(id_, int) else "guids"
    return _schema(address, f"schemas/{kind}/{id_}{form}", None)


def _schema(address: str, path: str, subject: str | None) -> RegisteredSchema:
    if not address.startswith(("http://", "https://")):
        raise OptionError(f"schemaRegistry: expected http://HOST:PORT, got {address[:200]!r}")
    url = f"{address.rstrip('/')}/{path}"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            text = answer.read(_ANSWER_SIZE_MAX)
    except urllib.error.HTTPError as problem:
        if problem.code == _NOT_FOUND and subject is None:
            number = path.partition("?")[0].rpartition("/")[2]
            raise ValueError(f"the registry has no schema {number}") from None
        if problem.code == _NOT_FOUND:
            raise PipelineError(
                f"the registry {address} has no subject {subject!r}: set valueSubject, or register"
                " its schema"
            ) from None
        raise PipelineError(f"schema registry: {url} answered with status {problem.code}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise PipelineError(f"schema registry: {url} did not answer: {reason}") from None
    try:
        found: Any = json.loads(text)
        references = [
            (str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in (found.get("references") or [])[:_REFERENCES_MAX]
        ]
        kind = str(found.get("schemaType") or "AVRO")
        return RegisteredSchema(str(found["schema"]), references, kind)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PipelineError(
            f"schema registry: {url} answered with something that is not a schema"
        ) from None
