"""The consumer of a share group (KIP-932): it takes single messages, and acknowledges each.

Written once over `Net`: `barnabas.ShareConsumer` awaits, `barnabas.sync.ShareConsumer` blocks.
Always: with implicit acknowledgement, a message is accepted when the next one (of an iteration) or
the next poll or commit is requested, and released by a close; with explicit acknowledgement, only
`acknowledge` decides. Callbacks are called between messages.
Not here: deciding what to fetch (share_fetching.py), requests (share_reader.py), the group
(share_membership.py).
"""

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Generic, Self, cast
from uuid import uuid4

from barnabas.client.aio import open_cluster
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.consumer import sorted_out
from barnabas.client.consumer.membership.member import MembershipDriver
from barnabas.client.consumer.membership.membership import (
    AssignPartitions,
    LosePartitions,
    MemberTerms,
    RevokePartitions,
)
from barnabas.client.consumer.message import K, Message, RawMessage, V
from barnabas.client.consumer.one_poll import OnePoll
from barnabas.client.consumer.reader import closed
from barnabas.client.consumer.subscription import Wanted, subscription
from barnabas.client.net import PendingResponse
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.acknowledgement_reports import (
    AcknowledgementCallback,
    AcknowledgementReports,
    deserialized,
)
from barnabas.client.share.share_fetching import ShareFetching
from barnabas.client.share.share_membership import ShareMembership
from barnabas.client.share.share_reader import ShareReader
from barnabas.config.client import Settings, Value
from barnabas.config.option import invalid
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import ProtocolMessage

_log = logging.getLogger("barnabas.client")
_LOOK_S = 0.1  # how often an iteration sends acknowledgements within a batch


class ShareConsumer(Generic[K, V]):
    """`async with ShareConsumer("orders", group_id="billing") as c: async for message in c: ...`

    Topics by name; a mapping among them holds options by their dotted names.
    `allow_unacknowledged`: with explicit acknowledgement, `poll` may be called while messages are
    not acknowledged yet.
    """

    def __init__(
        self,
        *what: Wanted | Settings,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        allow_unacknowledged: bool = False,
        cluster: ClusterClient | None = None,
        **options: Value,
    ) -> None:
        wanted, settings = sorted_out(what)
        self._cluster = cluster or open_cluster(settings, options)
        self.owns_cluster = cluster is None  # it is closed with this consumer
        config = self._cluster.config
        self._group_id = config.group_id
        if not self._group_id:
            raise invalid("a ShareConsumer needs a group: set group.id")
        self._explicit = config.share_acknowledgement_mode == "explicit"
        self._allow_unacknowledged = allow_unacknowledged
        if allow_unacknowledged and not self._explicit:
            raise invalid("allow_unacknowledged needs share.acknowledgement.mode=explicit")
        self._wanted = _names(wanted)
        self._key_of = key_deserializer
        self._value_of = value_deserializer
        self._member: MembershipDriver | None = None
        self._member_id = str(uuid4())
        self._core = ShareFetching(
            self._group_id,
            self._member_id,
            backoff_ms=config.retry_backoff_ms,
            crc=config.check_crcs,
        )
        self._held = self._core.messages
        self._reader = ShareReader(self._cluster, self._core)
        self._opening = self._cluster.net.bounded_task()
        self._one_poll = OnePoll(self._cluster.net)
        self._reports = AcknowledgementReports(self._held)
        self._batch: list[RawMessage] = []  # the last messages
        self._next = 0  # how many of them were returned
        self._taken = 0  # how many of those by the last request
        self._look_at = 0.0  # when an iteration looks at the group within a batch

    async def __aenter__(self) -> Self:
        self._cluster.net.check_owner()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        self._cluster.net.check_owner()
        return self

    async def __anext__(self) -> Message[K, V]:
        number = self._next
        if number < len(self._batch) and monotonic() < self._look_at:
            self._next = number + 1
            return cast("Message[K, V]", self._batch[number])
        return await self._next_polled()

    async def _next_polled(self) -> Message[K, V]:
        await self._one_poll.run(self._look())
        while self._next >= len(self._batch):
            await self._one_poll.run(self._poll(self._cluster.config.max_poll_records, None))
            self._next = 0
        self._look_at = monotonic() + _LOOK_S
        self._next += 1
        self._taken = 1
        return cast("Message[K, V]", self._batch[self._next - 1])

    # --- what is read ---

    def subscribe(self, *topics: str) -> None:
        """Subscribe to these topics, and no others, from the next poll on."""
        self._wanted = _names(topics)
        if self._member is not None:
            self._member.subscribe(subscription(self._wanted))
            self._changed()

    def subscription(self) -> frozenset[str]:
        return frozenset(self._wanted)

    async def unsubscribe(self) -> None:
        """Leave the group now. Acknowledgements are sent first; other messages are released."""
        self._cluster.net.check_owner()
        self._wanted = ()
        if self._member is None:
            return
        self._forget_batch()
        await self._reader.close()
        await self._reports.tell()
        await self._member.leave("the consumer unsubscribed from all topics")
        self._member = None
        self._core.assign(())

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer fetches from at the moment; others may, too."""
        return self._core.assigned

    @property
    def state(self) -> str:
        """`closed`, `unjoined` (it joins when it is polled), `joining`, `stable`, `failed`."""
        if self._one_poll.closed:
            return "closed"
        return "unjoined" if self._member is None else self._member.state

    @property
    def member_id(self) -> str:
        return self._member_id

    # --- messages ---

    async def poll(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # no error, an empty list
        max_records: int | None = None,
    ) -> list[Message[K, V]]:
        """Up to `max_records` messages (max.poll.records), each locked for this consumer.

        Waits for the first of them: for ever, or `timeout` seconds, then the list is empty. With
        implicit acknowledgement, the messages of the poll before are accepted.
        """
        net = self._cluster.net
        net.check_owner()
        count = self._cluster.config.max_poll_records if max_records is None else max_records
        deadline = None if timeout is None else net.now_ms() + int(timeout * 1000)
        await self._one_poll.run(self._poll(max(1, count), deadline))
        return cast("list[Message[K, V]]", self._batch[self._next - self._taken : self._next])

    async def _poll(self, count: int, deadline: int | None) -> None:
        """Puts messages into the batch, if there are any."""
        self._used()
        if self._drop_late():
            self._taken = min(count, len(self._batch))
            self._next = self._taken
            await self._reader.send(None, deadline)
            return
        self._batch, self._next, self._taken = [], 0, 0
        while True:
            self._one_poll.check_woken()
            await self._reports.tell()
            await self._join(deadline)
            taken = await self._reader.poll(count, self._until(deadline), self._others)
            if taken:
                self._batch = deserialized(self._held, taken, self._key_of, self._value_of)
                self._next = self._taken = len(self._batch)
                return
            if deadline is not None and self._cluster.net.now_ms() >= deadline:
                return

    def _used(self) -> None:
        """The user asks for more: all returned messages have been used."""
        returned = self._batch[: self._next]
        if self._explicit:
            left = None if self._allow_unacknowledged else self._held.unacknowledged(returned)
            if left is not None:
                raise InvalidRequest(
                    Code.INVALID_RECORD_STATE,
                    f"{left.topic}-{left.partition}, offset {left.offset}, was not acknowledged:"
                    " with share.acknowledgement.mode=explicit, acknowledge every message before"
                    " the next poll",
                )
        else:
            self._held.accept(returned)
        self._batch, self._next = self._batch[self._next :], 0

    def _drop_late(self) -> bool:
        """Whether messages of the batch are left to return, with a lock that lasts."""
        if self._batch:
            now = self._cluster.net.now_ms()
            self._batch = [one for one in self._batch if now < (self._held.lasts_until(one) or 0)]
        return bool(self._batch)

    async def _look(self) -> None:
        """Within a batch: send acknowledgements, and run the group's steps, without waiting."""
        if self._next >= len(self._batch):
            return
        self._used()
        self._drop_late()
        now = self._cluster.net.now_ms()
        await self._reports.tell()
        await self._reader.glance(self._others)
        await self._reader.send(None, now)
        await self._join(now)

    def wakeup(self) -> None:
        """From any thread: the call that waits for a message, or the next one, raises WokenUp."""
        self._one_poll.woken = True
        self._reader.wake_up.notify()

    # --- acknowledgements ---

    def acknowledge(
        self, message: Message[Any, Any], type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Decide about a message. It is sent with the next poll or commit; you can
        change it before that.
        """
        if self._one_poll.closed:
            raise closed()
        if not self._explicit:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                "messages are acknowledged implicitly: to acknowledge them yourself, set"
                " share.acknowledgement.mode=explicit",
            )
        self._held.acknowledge(cast("RawMessage", message), AcknowledgeType(type))

    async def commit_sync(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send the acknowledgements, and wait for their results: by partition, None or an error.

        With an error, the messages of this partition may be delivered again.
        """
        return await self._one_poll.run(self._commit_sync(timeout))

    async def _commit_sync(self, wait_s: float | None) -> dict[TopicPartition, KafkaError | None]:
        net, config = self._cluster.net, self._cluster.config
        if not self._explicit:
            self._held.accept(self._batch[: self._next])
        await self._reports.tell()
        wait_ms = config.default_api_timeout_ms if wait_s is None else int(wait_s * 1000)
        await self._reader.settle(net.now_ms() + wait_ms, self._others)
        found: dict[TopicPartition, KafkaError | None] = {}
        for result in self._held.results():
            found[result.at] = found.get(result.at) or result.error
        for at in self._core.unsettled():
            found[at] = Retriable(
                Code.REQUEST_TIMED_OUT, f"{at}: not acknowledged in {wait_ms} ms; it is sent again"
            )
        return found

    async def commit_async(self) -> None:
        """Send the acknowledgements, without waiting: the callback gets the results."""
        await self._one_poll.run(self._commit_async())

    async def _commit_async(self) -> None:
        if not self._explicit:
            self._held.accept(self._batch[: self._next])
        now = self._cluster.net.now_ms()
        await self._reader.glance(self._others)
        await self._reader.send(None, now)
        await self._reports.tell()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """A function of (offsets by partition, error or None), called by polls, commits, close."""
        self._reports.callback = callback

    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a message stays locked, as the broker said last; None: not known yet."""
        return self._core.lock_ms

    # --- the group ---

    async def _join(self, deadline: int | None) -> None:
        if self._member is None:
            if not self._wanted:
                raise invalid("nothing to read: name topics, or subscribe to some")
            cluster = self._cluster
            if cluster.known is None and not await self._opening.done(
                lambda: cluster.retrying(cluster.view),  # fails at once if no broker answers
                deadline,
            ):
                return
            self._member = self._new_member()
        await self._member.advance(deadline)

    def _new_member(self) -> MembershipDriver:
        config = self._cluster.config
        terms = MemberTerms(
            self._group_id,
            rack=config.client_rack or None,
            poll_interval_ms_max=config.max_poll_interval_ms,
            backoff_ms=config.retry_backoff_ms,
        )
        machine = ShareMembership(terms, self._member_id, self._cluster.net.now_ms())
        wanted = subscription(self._wanted)
        return MembershipDriver(
            self._cluster, self._group_id, machine, wanted, self._on_partitions, self._changed
        )

    async def _on_partitions(
        self, step: RevokePartitions | LosePartitions | AssignPartitions
    ) -> None:
        assigned = dict.fromkeys(self._core.assigned)
        for at in step.partitions:
            if isinstance(step, AssignPartitions):
                assigned[at] = None
            else:
                assigned.pop(at, None)
        self._core.assign(assigned)

    def _until(self, deadline: int | None) -> int | None:
        wait_until = self._member.wait_until if self._member is not None else 0
        if not wait_until:
            return deadline
        return wait_until if deadline is None else min(deadline, wait_until)

    def _others(self) -> Sequence[PendingResponse[ProtocolMessage]]:
        return () if self._member is None else self._member.answers

    def _changed(self) -> None:
        """Called on any thread: the next request for a message looks at the group first."""
        self._look_at = 0.0
        self._reader.wake_up.notify()

    # --- the end ---

    def _forget_batch(self) -> None:
        """The messages before the last request were used; those of the last one may not have."""
        if not self._explicit:
            self._held.accept(self._batch[: self._next - self._taken])
        self._batch, self._next, self._taken = [], 0, 0

    async def close(self) -> None:
        """Send acknowledgements, release all other messages, leave the group, disconnect."""
        if self._one_poll.closed:
            return
        self._one_poll.closed = True
        self._look_at = 0.0
        try:
            if not self._cluster.net.may_send_at_close():
                return
            self._forget_batch()
            if self._member is not None:
                await self._reader.close()
                await self._member.leave("the consumer was closed")
            await self._reports.tell()
        finally:
            if self.owns_cluster:
                self._cluster.close()


def _names(topics: Sequence[Wanted]) -> tuple[str, ...]:
    wanted = subscription(topics)
    if wanted.pattern is not None:
        raise invalid("a ShareConsumer has no patterns: name the topics")
    return wanted.names
