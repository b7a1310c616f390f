"""Calls the user's function, asyncio or blocking, for each record.

Always: key and value are deserialized in the call, so a record that cannot be deserialized fails
alone, and its bytes go unchanged to the dead-letter topic.
"""

import inspect
from collections.abc import Callable
from typing import Any, Generic

from barnabas.client.consumer.message import K, Message, RawMessage, Source, V
from barnabas.model.errors import Code, Failed
from barnabas.model.ids import TopicPartition

Deserializer = Callable[[bytes], Any]
Serializer = Callable[[Any], bytes | str | None]


class HandlerFailed(Failed):
    """A record failed all its attempts, and there is no dead-letter topic."""

    def __init__(self, at: TopicPartition, offset: int, detail: str) -> None:
        super().__init__(Code.UNKNOWN_SERVER_ERROR, f"{at}, offset {offset}: {detail}")
        self.at = at
        self.offset = offset


class UndecodableRecord(Exception):
    """A deserializer failed: a retry cannot help."""


class Opener(Generic[K, V]):
    """Creates the message for the handler from the fetched message."""

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = key
        self._value = value

    def open(self, raw: RawMessage) -> Message[K, V]:
        if self._key is None and self._value is None:
            return raw  # type: ignore[return-value]  # K and V are bytes | None then
        key: Any = raw.key
        value: Any = raw.value
        try:
            if self._key is not None and key is not None:
                key = self._key(key)
            if self._value is not None and value is not None:
                value = self._value(value)
        except Exception as problem:
            name = type(problem).__name__
            raise UndecodableRecord(f"the deserializer failed: {name}: {problem}") from problem
        acquisition = raw.acquisition
        source: Source = (raw.topic, raw.partition, raw.batch, raw.marks)
        if acquisition is not None:
            source = (*source[:4], acquisition)
        return Message(source, raw.offset, raw.timestamp, key, value, raw.headers)


def is_blocking(handler: Callable[[Any], Any]) -> bool:
    """Whether it must run on a thread: it is no coroutine function, nor an object with one."""
    return not (
        inspect.iscoroutinefunction(handler)
        or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
    )
