"""Replies with an error that no broker would give here, for `kafka.fail`.

A request that changes something is not carried out: the reply repeats the topics and partitions
of the request, each with the error. A request that only reads is answered as usual, and then the
error is written into the reply, so that a reply of Metadata still has its brokers.
"""

import types
from collections.abc import Iterable
from typing import Annotated, Any, Union, get_args, get_origin
from uuid import UUID

from msgspec.structs import replace

from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.apis import APIS
from barnabas.wire.codec import REQUIRED, Field, ProtocolMessage, Struct

# Fetch, ListOffsets, Metadata, OffsetFetch, FindCoordinator, and all that describe or list.
READS = frozenset(
    (1, 2, 3, 9, 10, 15, 16, 18, 23, 29, 32, 35, 41, 46, 48, 50, 60, 61, 65, 66, 69, 74, 75, 77, 90)
)
PRODUCE = 0
_SAME = {  # names of one thing in requests and responses
    "index": "partition",
    "partition_index": "partition",
    "topic_name": "topic",
    "resource_name": "name",
}
_LISTS_OF_MEMBERS = ("members",)  # of JoinGroup: only a reply without an error has them


def error_reply(request: ProtocolMessage, code: Code, version: int) -> ProtocolMessage | None:
    """The reply to a request that was refused as a whole; None where none is expected."""
    if request.api_key == PRODUCE and getattr(request, "acks", -1) == 0:
        return None
    response = APIS[request.api_key].response
    made: ProtocolMessage = _mirrored(response, request, code, version)
    return made


def with_error(response: Any, code: Code) -> Any:
    """The same reply with the error in every place for one, and without records."""
    if not isinstance(response, Struct):
        return response
    changed: dict[str, Any] = {}
    for name in response.wire_fields:
        value = getattr(response, name)
        if name == "error_code":
            # Of a whole Fetch or Metadata reply it is about the session or the cluster.
            if not isinstance(response, ProtocolMessage) or not _has_parts(response):
                changed[name] = code
        elif name == "records":
            changed[name] = b""
        elif isinstance(value, list):
            changed[name] = [with_error(each, code) for each in value]
    return replace(response, **changed)


def _has_parts(response: Struct) -> bool:
    return any(
        isinstance(value := getattr(response, name), list) and value
        for name in response.wire_fields
    )


def _mirrored(kind: type[Struct], source: Any, code: Code, version: int) -> Any:
    values: dict[str, Any] = {}
    given = _given(source, version)
    parts = next((value for value in given.values() if isinstance(value, list) and value), [])
    for name, (annotation, field) in kind.wire_fields.items():
        inner = _element(annotation)
        if field.default is not REQUIRED and not _is_in(field, version):
            continue
        if name == "error_code":
            values[name] = code
        elif name == "error_message":
            values[name] = None if field.default is not REQUIRED else code.text
        elif inner is not None and name not in _LISTS_OF_MEMBERS:
            values[name] = [_mirrored(inner, part, code, version) for part in parts]
        elif inner is not None:
            values[name] = []
        elif _name(name) in given and _fits(given[_name(name)], annotation):
            values[name] = given[_name(name)]
        elif source is not None and not isinstance(source, Struct) and _fits(source, annotation):
            values[name], source = source, None  # the element of a list of names or numbers
        elif field.default is REQUIRED:
            values[name] = _empty(annotation, field.nullable_from, version)
    return kind(**values)


def _given(source: Any, version: int) -> dict[str, Any]:
    """The fields that the request has in this version."""
    if not isinstance(source, Struct):
        return {}
    return {
        _name(name): getattr(source, name)
        for name, (_, field) in source.wire_fields.items()
        if _is_in(field, version)
    }


def _is_in(field: Field, version: int) -> bool:
    return field.tag is None and field.first <= version <= field.last


def _name(name: str) -> str:
    return _SAME.get(name, name)


def _kinds(annotation: Any) -> Iterable[Any]:
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [one for each in get_args(annotation) for one in _kinds(each)]
    return [annotation]


def _element(annotation: Any) -> type[Struct] | None:
    for kind in _kinds(annotation):
        if get_origin(kind) is list:
            (element,) = get_args(kind)
            if isinstance(element, type) and issubclass(element, Struct):
                return element
    return None


def _fits(value: object, annotation: Any) -> bool:
    return any(isinstance(kind, type) and isinstance(value, kind) for kind in _kinds(annotation))


def _empty(annotation: Any, nullable_from: int, version: int) -> Any:
    kinds = list(_kinds(annotation))
    if type(None) in kinds and version >= nullable_from:
        return None
    kind = kinds[0]
    if get_origin(kind) is list:
        return []
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _mirrored(kind, None, Code.NONE, version)
    if kind is UUID:
        return NO_TOPIC_ID
    return kind() if kind in (int, str, bytes, bool, float) else b""
