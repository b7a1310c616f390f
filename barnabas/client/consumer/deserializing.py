"""Deserializes messages for the user, then calls the interceptors.

In: messages as they were fetched. Out: messages for the user.
Always: a message that cannot be deserialized is not skipped: the messages before it are returned,
and the next poll reads it again.
Not here: when messages are fetched and returned (message_stream.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from barnabas.client.consumer.message import Message, RawMessage
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.model.ids import TopicPartition


class ConsumerInterceptor(Protocol):
    """Sees messages before they are returned, and offsets after they were committed."""

    def on_consume(self, messages: list[Message[Any, Any]]) -> list[Message[Any, Any]]: ...

    def on_commit(self, offsets: Mapping[TopicPartition, Committed]) -> None: ...


class Unreadable(Corrupt):
    """A deserializer failed. The position stays at the message: seek past it to go on."""

    def __init__(self, message: RawMessage, problem: Exception, remedy: str = "") -> None:
        remedy = remedy or f"Seek to {message.offset + 1} to skip it"
        super().__init__(
            f"{message.topic}-{message.partition}, offset {message.offset}: the deserializer"
            f" failed: {problem!r}. {remedy}"
        )
        self.message = message


class Deserializing:
    """`give_back`: returns the last messages to the reader unused. `read_again`: the same, but they
    are fetched again, because they may have been changed.
    """

    def __init__(
        self,
        key_deserializer: Callable[[bytes], Any] | None,
        value_deserializer: Callable[[bytes], Any] | None,
        interceptors: Sequence[ConsumerInterceptor],
        *,
        give_back: Callable[[list[RawMessage]], None],
        read_again: Callable[[Sequence[RawMessage]], None],
    ) -> None:
        self._key_of = key_deserializer
        self._value_of = value_deserializer
        self._interceptors = list(interceptors)
        self._give_back = give_back
        self._read_again = read_again

    def messages_of(self, taken: list[RawMessage]) -> list[RawMessage]:
        key_of, value_of = self._key_of, self._value_of
        messages = cast("list[Message[Any, Any]]", taken)
        for number, message in enumerate(messages):
            key, value = message.key, message.value
            try:
                if key_of is not None and key is not None:
                    message.key = key_of(key)
                if value_of is not None and value is not None:
                    message.value = value_of(value)
            except Exception as problem:
                message.key, message.value = key, value
                self._give_back(taken[number:])
                if number == 0:
                    raise Unreadable(message, problem) from problem
                messages = messages[:number]
                break
        try:
            for one in self._interceptors:
                messages = one.on_consume(messages)
                if not isinstance(messages, list):
                    raise InvalidRequest(
                        Code.INVALID_REQUEST,
                        f"on_consume of the interceptor {one!r:.200} returned {messages!r:.100}:"
                        " it must return a list of messages",
                    )
        except BaseException:
            self._read_again(taken)
            raise
        return messages

    def notify_committed(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        for one in self._interceptors:
            one.on_commit(offsets)
