"""A share consumer that blocks: the same flows, run by the calling thread.

Heartbeats have their own thread; everything else happens on the thread that polls.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, Self, cast

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.net import mirrored, run
from barnabas.client.consumer.consumer import sorted_out
from barnabas.client.consumer.message import K, Message, V
from barnabas.client.consumer.subscription import Wanted
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.acknowledgement_reports import AcknowledgementCallback
from barnabas.client.share.share_consumer import ShareConsumer as Flows
from barnabas.config.client import Settings, Value
from barnabas.model.ids import TopicPartition


class ShareConsumer(Generic[K, V]):
    """`with ShareConsumer("orders", group_id="billing") as c: for message in c: ...`"""

    def __init__(
        self,
        *what: Wanted | Settings,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        allow_unacknowledged: bool = False,
        **options: Value,
    ) -> None:
        wanted, settings = sorted_out(what)
        self._body: Flows[Any, Any] = Flows(
            *wanted,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            allow_unacknowledged=allow_unacknowledged,
            cluster=open_cluster(settings, options),
        )
        self._body.owns_cluster = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        run(self._body.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[K, V]:
        body = self._body
        number = body._next
        if number < len(body._batch) and monotonic() < body._look_at:
            body._next = number + 1
            return cast("Message[K, V]", body._batch[number])
        return cast("Message[K, V]", run(body._next_polled()))

    def poll(
        self, timeout: float | None = None, max_records: int | None = None
    ) -> list[Message[K, V]]:
        """Up to `max_records` messages (max.poll.records), each locked for this consumer.

        Waits for the first of them: for ever, or `timeout` seconds, then the list is empty. With
        implicit acknowledgement, the messages of the poll before are accepted.
        """
        return run(self._body.poll(timeout, max_records))

    commit_sync = mirrored(Flows[Any, Any].commit_sync)
    commit_async = mirrored(Flows[Any, Any].commit_async)
    unsubscribe = mirrored(Flows[Any, Any].unsubscribe)
    close = mirrored(Flows[Any, Any].close)

    def acknowledge(
        self, message: Message[Any, Any], type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Decide about a message. It is sent with the next poll or commit; the last decision
        before that counts.
        """
        self._body.acknowledge(message, type)

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """A function of (offsets by partition, error or None), called by polls, commits, close."""
        self._body.set_acknowledgement_commit_callback(callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a message stays locked, as the broker said last; None: not known yet."""
        return self._body.acquisition_lock_timeout_ms()

    def subscribe(self, *topics: str) -> None:
        """Subscribe to these topics, and no others, from the next poll on."""
        self._body.subscribe(*topics)

    def subscription(self) -> frozenset[str]:
        return self._body.subscription()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer fetches from at the moment; others may, too."""
        return self._body.assignment()

    def wakeup(self) -> None:
        """From any thread: the call that waits for a message, or the next one, raises WokenUp."""
        self._body.wakeup()

    @property
    def state(self) -> str:
        """`closed`, `unjoined` (it joins when it is polled), `joining`, `stable`, `failed`."""
        return self._body.state

    @property
    def member_id(self) -> str:
        return self._body.member_id
