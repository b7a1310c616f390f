"""Messages that block: the same flows, run by the calling thread."""

from collections.abc import Mapping
from time import monotonic
from typing import Any, Generic, Self, cast

from barnabas.client.blocking.net import mirrored, run
from barnabas.client.consumer.message import K, Message, V
from barnabas.client.consumer.message_stream import MessageStream as Flows
from barnabas.client.consumer.seeking import At
from barnabas.client.group_metadata import GroupMetadata
from barnabas.model.ids import TopicPartition


class BlockingMessages(Generic[K, V]):
    """An iterator of messages, and more. For one thread at a time."""

    _body: Flows[K, V]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        run(self._body.__aexit__(kind))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[K, V]:
        body = self._body
        number = body._next
        if number < len(body._batch) and monotonic() < body._group_look_at:
            body._next = number + 1
            return cast("Message[K, V]", body._batch[number])
        try:
            return run(body._next_polled())
        except StopAsyncIteration:
            raise StopIteration from None

    def getmany(
        self, max_records: int | None = None, timeout: float | None = None
    ) -> list[Message[K, V]]:
        """Up to `max_records` messages (max.poll.records), in order per partition.

        Waits for the first of them: for ever, or `timeout` seconds, then the list is empty.
        """
        return run(self._body.getmany(max_records, timeout))

    def getone(self, timeout: float | None = None) -> Message[K, V]:
        """The next message; TimeoutError if none comes in `timeout` seconds."""
        return run(self._body.getone(timeout))

    def wakeup(self) -> None:
        """From any thread: the call that waits for a message, or the next one, raises WokenUp."""
        self._body.wakeup()

    close = mirrored(Flows[Any, Any].close)
    position = mirrored(Flows[Any, Any].position)
    seek = mirrored(Flows[Any, Any].seek)
    seek_to_time = mirrored(Flows[Any, Any].seek_to_time)
    seek_to_beginning = mirrored(Flows[Any, Any].seek_to_beginning)
    seek_to_end = mirrored(Flows[Any, Any].seek_to_end)
    beginning_offsets = mirrored(Flows[Any, Any].beginning_offsets)
    end_offsets = mirrored(Flows[Any, Any].end_offsets)
    offsets_for_times = mirrored(Flows[Any, Any].offsets_for_times)
    commit = mirrored(Flows[Any, Any].commit)
    commit_nowait = mirrored(Flows[Any, Any].commit_nowait)
    committed = mirrored(Flows[Any, Any].committed)

    def seek_to_committed(self, *partitions: At) -> None:
        """Go back to what the group has committed for these, or for all assigned."""
        self._body.seek_to_committed(*partitions)

    def group_metadata(self) -> GroupMetadata:
        """Who this reader is to its group, for `producer.send_offsets_to_transaction`."""
        return self._body.group_metadata()

    def assignment(self) -> list[TopicPartition]:
        """What is read at the moment."""
        return self._body.assignment()

    def pause(self, *partitions: At) -> None:
        """Hand nothing of these out until they are resumed; the membership goes on."""
        self._body.pause(*partitions)

    def resume(self, *partitions: At) -> None:
        self._body.resume(*partitions)

    def paused(self) -> list[TopicPartition]:
        return self._body.paused()

    def lag(self) -> Mapping[TopicPartition, int]:
        """Records between our position and the end, as far as the fetch responses say."""
        return self._body.lag()
