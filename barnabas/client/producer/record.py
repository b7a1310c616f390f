"""A record to send: interceptors see it, and handlers of workers return it."""

from typing import Any, NamedTuple


class ProducerRecord(NamedTuple):
    """`value` and `key`: bytes, text, None, or what a serializer accepts."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Any = ()
    partition: int | None = None
    timestamp: int | None = None
