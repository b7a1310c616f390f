"""Schemas of a Confluent-style registry, by number or the latest of a subject; and its framing.

A framed value is 0, the number of its schema in four bytes, and the value; Protobuf has the way to
its message in the schema's file between the two.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

from barnabas.pipeline.errors import OptionError, PipelineError

FRAME_SIZE = 5
SERIALIZED = "?format=serialized"  # Protobuf as a descriptor, not as text
_TIMEOUT_S = 10
_NOT_FOUND = 404
_ANSWER_SIZE_MAX = 4 * 1024 * 1024
_REFERENCES_MAX = 100


class RegisteredSchema(NamedTuple):
    """A schema; `references` are files it imports: name, subject, version."""

    text: str
    references: list[tuple[str, str, int]]


def unframed(value: bytes) -> int:
    """The number of the schema. ValueError if the value is not framed."""
    if len(value) < FRAME_SIZE or value[0] != 0:
        raise ValueError("not framed as a registry frames values: no 0 and schema number")
    return int.from_bytes(value[1:FRAME_SIZE])


def latest_schema(address: str, subject: str, form: str = "") -> RegisteredSchema:
    return schema_of(address, subject, "latest", form)


def schema_of(address: str, subject: str, version: int | str, form: str = "") -> RegisteredSchema:
    name = urllib.parse.quote(subject, safe="")
    return _schema(address, f"subjects/{name}/versions/{version}{form}", subject)


def schema_by_id(address: str, number: int, form: str = "") -> RegisteredSchema:
    """ValueError if the registry has no such number."""
    return _schema(address, f"schemas/ids/{number}{form}", None)


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
        raise PipelineError(f"schema registry: {url} was answered with {problem.code}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise PipelineError(f"schema registry: {url} did not answer: {reason}") from None
    try:
        found: Any = json.loads(text)
        references = [
            (str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in (found.get("references") or [])[:_REFERENCES_MAX]
        ]
        return RegisteredSchema(str(found["schema"]), references)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PipelineError(f"schema registry: {url} answered something else") from None
