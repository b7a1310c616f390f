"""A request of any API with one element in every list."""

from typing import Any
from uuid import UUID

from barnabas.testing.error_replies import _element, _kinds
from barnabas.wire.codec import Struct

_VALUES: dict[object, Any] = {
    int: 1,
    str: "name",
    bytes: b"",
    bool: False,
    float: 0.5,
    UUID: UUID(int=7),
}


def request_of(kind: type[Struct]) -> Any:
    values = {}
    for name, (annotation, _) in kind.wire_fields.items():
        inner = _element(annotation)
        if inner is not None:
            values[name] = [request_of(inner)]
            continue
        first = next(iter(_kinds(annotation)))
        if isinstance(first, type) and issubclass(first, Struct):
            values[name] = request_of(first)
        elif getattr(first, "__origin__", None) is list:
            (element,) = first.__args__
            values[name] = [_VALUES.get(next(iter(_kinds(element))), b"")]
        else:
            values[name] = _VALUES.get(first, b"")
    return kind(**values)
