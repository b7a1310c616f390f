# cython: annotation_typing=False, infer_types=False
"""Accepts the records of a producer: checks them, converts them to bytes, passes them on.

Always: a record that cannot be sent raises at once, and nothing of it is kept.

This is plain Python. If a compiler is available, Cython compiles this file with the types in
intake.pxd.
"""

import operator
from collections.abc import Callable
from typing import Any

from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.batches import Callback, Delivery
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.record_loops import Headers

COMPILED = not __file__.endswith(".py")

_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


class Intake:
    """Accepts records; the base of both producers."""

    def __init__(
        self,
        accumulator: Accumulator,
        prepare: Callable[..., tuple[Any, ...]] | None,
        lock: Any = None,
    ) -> None:
        self._accumulator = accumulator
        self._prepare = prepare
        self._lock = lock  # where threads share a producer
        self._refusing = False  # closed, or outside a transaction

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp: int | None = None,
        callback: Callback | None = None,
    ) -> Delivery:
        """Add a record without waiting; BufferFull if there is no room for it.

        `callback(metadata, error)` is called once, with one of the two and None.
        """
        if self._refusing:
            raise self._refusal()
        self._accumulator.check_room()  # first, so that no record is prepared twice
        if self._prepare is not None:
            topic, value, key, headers, partition, timestamp, callback = self._prepare(
                topic, value, key, headers, partition, timestamp, callback
            )
        if value is not None and type(value) is not bytes:
            value = octets_of(value, "value")
        if key is not None and type(key) is not bytes:
            key = octets_of(key, "key")
        if headers != ():
            headers = headers_of(headers)
        if type(topic) is not str:
            topic = name_of(topic)
        if partition is not None and type(partition) is not int:
            partition = number_of(partition, "partition")
        if timestamp is not None:
            timestamp = moment_of(timestamp)
        if self._lock is None:
            return self._accumulator.add(topic, value, key, headers, partition, timestamp, callback)
        with self._lock:
            return self._accumulator.add(topic, value, key, headers, partition, timestamp, callback)

    def _refusal(self) -> KafkaError:
        """Why it accepts no more records."""
        return closed()


def name_of(given: Any) -> str:
    """A topic's name; members of a string enumeration are accepted."""
    if not isinstance(given, str):
        raise TypeError(f"a topic is given by its name, not {given!r:.100}")
    return str.__str__(given)


def number_of(given: Any, what: str) -> int:
    try:
        return operator.index(given)
    except TypeError:
        raise TypeError(f"a {what} is a whole number or None, not {given!r:.100}") from None


def moment_of(given: Any) -> int:
    """Checked here, because a record that no broker accepts fails its whole batch."""
    timestamp = number_of(given, "timestamp")
    if not 0 <= timestamp <= _INT64_MAX:
        raise InvalidRequest(
            Code.INVALID_TIMESTAMP,
            f"timestamp {timestamp}: milliseconds since 1970 are from 0 to {_INT64_MAX}",
        )
    return timestamp


def octets_of(given: Any, what: str) -> bytes:
    """Text, or any bytes-like object, as bytes."""
    if isinstance(given, str):
        return given.encode()
    try:
        return bytes(memoryview(given))
    except TypeError:
        kind = type(given).__name__
        raise TypeError(
            f"a {what} is bytes, text or None, not {kind}"
            + ("" if what == "header" else f": a {what}_serializer can make it so")
        ) from None


def headers_of(given: Any) -> Headers:
    """A mapping or pairs, as pairs of text and bytes."""
    try:
        pairs = [(name, value) for name, value in _pairs(given)]
    except (TypeError, ValueError):
        raise TypeError(f"headers are pairs of a name and a value, not {given!r:.100}") from None
    for name, _ in pairs:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {type(name).__name__}")
    return tuple(
        (name, None if value is None else octets_of(value, "header")) for name, value in pairs
    )


def _pairs(given: Any) -> Any:
    return given.items() if hasattr(given, "items") else given


def closed() -> KafkaError:
    return InvalidRequest(Code.INVALID_REQUEST, "the producer is closed: make another")
