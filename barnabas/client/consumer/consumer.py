"""Reads topics as a member of a group.

Written once over `Net`: `barnabas.Consumer` awaits, `barnabas.sync.Consumer` blocks.
Always: rebalances happen between two polls, heartbeats in the background; callbacks get the cause;
a close commits the used messages and leaves the group.
Not here: polling (message_stream.py), fetching (reader.py), the group protocols and their
execution (client/consumer/membership/).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from barnabas.client.aio import open_cluster
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.callbacks import called
from barnabas.client.consumer.deserializing import ConsumerInterceptor
from barnabas.client.consumer.membership.assignors import Assignor, chosen
from barnabas.client.consumer.membership.classic import ClassicMembership
from barnabas.client.consumer.membership.consumer import ConsumerMembership
from barnabas.client.consumer.membership.member import MembershipDriver
from barnabas.client.consumer.membership.membership import (
    AssignPartitions,
    Cause,
    CommitterIdentity,
    LosePartitions,
    Membership,
    MemberTerms,
    RevokePartitions,
)
from barnabas.client.consumer.message import K, V
from barnabas.client.consumer.message_stream import MessageStream
from barnabas.client.consumer.subscription import Subscription, Wanted, subscription
from barnabas.client.net import PendingResponse
from barnabas.config.client import Settings, Value
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Fenced
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import ProtocolMessage as WireMessage

_log = logging.getLogger("barnabas.client")

Callback = Callable[[Any, list[TopicPartition], Cause], Any]
"""Of (consumer, partitions, cause); may be a coroutine function."""


class Consumer(MessageStream[K, V]):
    """`async with Consumer("orders", group_id="billing") as c: async for message in c: ...`

    Topics by name, or a pattern (`re.compile(...)`, or a text that starts with ^); a mapping
    among them holds options by their dotted names.
    """

    _shares = True

    def __init__(
        self,
        *what: Wanted | Settings,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        assignors: Sequence[str | Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        cluster: ClusterClient | None = None,
        **options: Value,
    ) -> None:
        wanted, settings = sorted_out(what)
        super().__init__(
            cluster or open_cluster(settings, options),
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            interceptors=interceptors,
            owns_cluster=cluster is None,
        )
        if not self._group_id:
            raise invalid(
                "a Consumer needs a group: set group.id, or read with a PartitionConsumer"
            )
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        config = self._cluster.config
        self._assignors = chosen(assignors or config.partition_assignment_strategy)
        self._wanted = subscription(wanted)
        self._member: MembershipDriver | None = None
        self._opening = self._cluster.net.bounded_task()
        if config.group_protocol == "classic" and (
            config.session_timeout_ms <= config.heartbeat_interval_ms
        ):
            raise invalid(
                f"heartbeat.interval.ms is {config.heartbeat_interval_ms}: it must be below"
                f" session.timeout.ms, {config.session_timeout_ms}"
            )
        if config.group_protocol == "classic" and (
            config.session_timeout_ms < 3 * config.heartbeat_interval_ms
        ):
            _log.warning(
                "group %s: session.timeout.ms is %d, less than three times heartbeat.interval.ms,"
                " %d: one or two late heartbeats remove this consumer from its group",
                self._group_id,
                config.session_timeout_ms,
                config.heartbeat_interval_ms,
            )

    # --- what is read ---

    def subscribe(self, *topics: Wanted) -> None:
        """Subscribe to these topics, and no others, from the next poll on."""
        self._wanted = subscription(topics)
        if self._member is None:
            return
        if self._served_pattern(self._wanted) is not None or self._pattern_served:
            raise invalid(
                "with group.protocol=consumer a pattern cannot be changed: open another consumer"
            )
        self._member.subscribe(self._wanted)
        self._group_changed()

    def subscription(self) -> Subscription:
        return self._wanted

    async def unsubscribe(self) -> None:
        """Leave the group now; used messages are committed first. `subscribe` joins it again."""
        self._cluster.net.check_owner()
        self._wanted = Subscription()
        if self._member is None:
            return
        partitions = self.assignment()
        if self._auto_commit:
            await self._commit_last()
        await self._leave(_UNSUBSCRIBED)
        self._member = None
        self._remove(partitions)

    @property
    def state(self) -> str:
        """`closed`, `unjoined` (it joins when it is polled), `joining`, `syncing`, `stable`, ..."""
        if self._one_poll.closed:
            return "closed"
        return "unjoined" if self._member is None else self._member.state

    @property
    def member_id(self) -> str:
        """Empty while not a member."""
        identity = self._identity()
        return identity.member_id if identity else ""

    @property
    def generation(self) -> int:
        """Of the group, or the epoch of this member; -1 while not a member."""
        identity = self._identity()
        return identity.generation if identity else -1

    # --- the group between polls ---

    async def _between_polls(self, deadline: int | None) -> None:
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

    def _until(self, deadline: int | None) -> int | None:
        wait_until = self._member.wait_until if self._member is not None else 0
        if not wait_until:
            return deadline
        return wait_until if deadline is None else min(deadline, wait_until)

    def _others(self) -> Callable[[], Sequence[PendingResponse[WireMessage]]] | None:
        member = self._member
        return None if member is None else lambda: member.answers

    def _identity(self) -> CommitterIdentity | None:
        return self._member.identity if self._member is not None else None

    def _commits_as(self) -> CommitterIdentity | None:
        """Refuses a commit of a non-member: an empty group would accept it."""
        identity = self._identity()
        if identity is None:
            raise Fenced(
                Code.UNKNOWN_MEMBER_ID,
                f"group {self._group_id!r}: not committed, this consumer is not a member"
                f"{self._why_taken()}. Poll for messages, so that it joins (again)",
            )
        return identity

    def _why_taken(self) -> str:
        return self._member.error_text if self._member is not None else ""

    def _may_commit(self) -> bool:
        return self._identity() is not None

    def _new_member(self) -> MembershipDriver:
        pattern = self._served_pattern(self._wanted)
        self._pattern_served = pattern is not None
        return MembershipDriver(
            self._cluster,
            self._group_id,
            self._machine(pattern),
            Subscription() if pattern is not None else self._wanted,
            self._on_partitions,
            self._group_changed,
        )

    _pattern_served = False

    def _served_pattern(self, wanted: Subscription) -> str | None:
        """A pattern that the coordinator matches; one with flags only Python understands."""
        if self._cluster.config.group_protocol == "classic" or wanted.pattern is None:
            return None
        plain = wanted.pattern.flags == _PLAIN_FLAGS
        return wanted.pattern.pattern if plain else None

    def _machine(self, pattern: str | None) -> Membership:
        config = self._cluster.config
        now = self._cluster.net.now_ms()
        terms = MemberTerms(
            self._group_id,
            config.group_instance_id or None,
            config.client_rack or None,
            config.session_timeout_ms,
            config.heartbeat_interval_ms,
            config.max_poll_interval_ms,
            config.retry_backoff_ms,
        )
        if config.group_protocol == "classic":
            return ClassicMembership(terms, self._assignors, now)
        assignor = config.group_remote_assignor or None
        return ConsumerMembership(terms, str(uuid4()), now, assignor=assignor, pattern=pattern)

    async def _on_partitions(
        self, step: RevokePartitions | LosePartitions | AssignPartitions
    ) -> None:
        partitions = sorted(step.partitions)
        if isinstance(step, AssignPartitions):
            self._reader.add(partitions)
            await called(self._on_assigned, self._owner, partitions, step.cause)
            return
        try:
            if isinstance(step, RevokePartitions):
                if self._auto_commit:
                    await self._commit_last(partitions)
                await called(self._on_revoked, self._owner, partitions, step.cause)
            else:
                on_lost = self._on_lost or self._on_revoked
                await called(on_lost, self._owner, partitions, step.cause)
        finally:
            self._remove(partitions)

    async def _leave(self, why: str = "") -> None:
        if self._member is None:
            return
        partitions = self.assignment()
        if partitions and self._on_revoked is not None:
            cause = Cause("closed", why or "this consumer is being closed", self.generation)
            try:
                await called(self._on_revoked, self._owner, partitions, cause)
            except Exception:
                # the callback failed, leaving the group may still work
                await self._member.leave(why or _CLOSED)
                raise
        await self._member.leave(why or _CLOSED)


def sorted_out(what: Sequence[Wanted | Settings]) -> tuple[list[Wanted], Settings]:
    """Topics, and options by their dotted names."""
    wanted: list[Wanted] = []
    settings: dict[str, object] = {}
    for one in what:
        if isinstance(one, Mapping):
            settings.update(one)
        else:
            wanted.append(one)
    return wanted, settings


_CLOSED = "the consumer was closed"
_UNSUBSCRIBED = "the consumer unsubscribed from all topics"
_PLAIN_FLAGS = 32  # re.UNICODE, which every pattern of text has
