"""Reports the results of acknowledgements to the user's callback, and deserializes messages."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from barnabas.client.consumer.deserializing import Unreadable
from barnabas.client.consumer.message import Message, RawMessage
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.held_messages import AcknowledgeResult, HeldMessages
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

_log = logging.getLogger("barnabas.client")
_UNREADABLE = "It is released; acknowledge it with REJECT to skip it, with explicit acknowledgement"

AcknowledgementCallback = Callable[
    [Mapping[TopicPartition, Sequence[range]], KafkaError | None], Awaitable[None] | None
]


class AcknowledgementReports:
    """Of one consumer."""

    def __init__(self, messages: HeldMessages) -> None:
        self._messages = messages
        self.callback: AcknowledgementCallback | None = None

    async def tell(self) -> None:
        results = self._messages.results()
        while results:
            result = results.pop(0)
            if self.callback is None:
                if result.error is not None:
                    _log.warning("not acknowledged, may be delivered again: %s", result.error)
                continue
            try:
                told = self.callback(_offsets(result), result.error)
                if told is not None:
                    await told
            except BaseException:
                self._messages.put_back_results(results)
                raise


def _offsets(result: AcknowledgeResult) -> dict[TopicPartition, Sequence[range]]:
    return {result.at: tuple(range(run.first, run.last + 1) for run in result.runs)}


def deserialized(
    held: HeldMessages,
    taken: list[RawMessage],
    key_of: Callable[[bytes], Any] | None,
    value_of: Callable[[bytes], Any] | None,
) -> list[RawMessage]:
    """Those before the first one that cannot be deserialized. If it is the first, it is raised."""
    if key_of is None and value_of is None:
        return taken
    for number, message in enumerate(cast("list[Message[Any, Any]]", taken)):
        key, value = message.key, message.value
        try:
            if key_of is not None and key is not None:
                message.key = key_of(key)
            if value_of is not None and value is not None:
                message.value = value_of(value)
        except Exception as problem:
            message.key, message.value = key, value
            if number:
                held.give_back(taken[number:])
                return taken[:number]
            held.give_back(taken[1:])
            held.acknowledge(message, AcknowledgeType.RELEASE)
            raise Unreadable(message, problem, _UNREADABLE) from problem
    return taken
