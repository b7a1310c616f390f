"""Reads topics as Kafka's first consumers did: the group is in the keeper, without a coordinator.

It blocks, because its keeper does. It works with a ZooKeeper, with the keeper file of local
brokers, or with any keeper.
Always: rebalances happen between two polls; before a rebalance, all partitions are released, and
used messages are committed in the keeper. Its herd effect and split brain, and why to use
`Consumer` instead: docs/ZOOKEEPER_CONSUMER.md. Not here: what it decides
(client/consumer/membership/zookeeper.py).
"""

import logging
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar
from uuid import uuid4

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.messages import BlockingMessages
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.callbacks import called
from barnabas.client.consumer.commits import OffsetCommits, Offsets
from barnabas.client.consumer.consumer import Callback, sorted_out
from barnabas.client.consumer.membership.membership import Cause
from barnabas.client.consumer.membership.zookeeper import Attempts, ZookeeperMember
from barnabas.client.consumer.message import Raw
from barnabas.client.consumer.message_stream import MessageStream
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.consumer.positions import FetchPosition
from barnabas.client.consumer.subscription import subscription
from barnabas.client.net import PendingResponse
from barnabas.config.client import Settings, Value
from barnabas.config.option import invalid
from barnabas.keeper.keeper import (
    Event,
    Keeper,
    KeeperError,
    Listener,
    SessionExpired,
    SessionState,
    Unavailable,
)
from barnabas.model.errors import Code, Fenced, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import ProtocolMessage as WireMessage

_log = logging.getLogger("barnabas.client")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
OpenKeeper = Callable[[Listener], Keeper]
T = TypeVar("T")


class RebalanceFailed(Retriable):
    """Other members own partitions that this member computed as its own: poll again to retry."""


class ZookeeperConsumer(BlockingMessages[Raw, Raw]):
    """`with ZookeeperConsumer("orders", group_id="billing", zookeeper_connect="zk:2181") as c: ...`

    `keeper_file`, instead of `zookeeper_connect`: the keeper file of the brokers of this machine.
    """

    def __init__(
        self,
        *what: str | Settings,
        zookeeper_connect: str = "",
        keeper_file: str = "",
        zookeeper_session_timeout_ms: int = 6_000,
        consumer_id: str = "",
        rebalance_max_retries: int = 4,
        rebalance_backoff_ms: int = 2_000,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        **options: Value,
    ) -> None:
        wanted, settings = sorted_out(what)
        opener = _opener(zookeeper_connect, keeper_file, zookeeper_session_timeout_ms)
        self._body: ZookeeperFlows = ZookeeperFlows(
            subscription(wanted).names,
            opener,
            open_cluster(settings, options),
            consumer_id=consumer_id,
            attempts=Attempts(rebalance_max_retries, rebalance_backoff_ms),
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        self._body.stands_for(self)

    @property
    def member_id(self) -> str:
        """The member id in the keeper, from the first poll on."""
        return self._body.member_id


class ZookeeperFlows(MessageStream[Raw, Raw]):
    """The flows of the consumer, for any keeper; run on a thread, because keepers block."""

    _shares = True

    def __init__(
        self,
        topics: Sequence[str],
        open_keeper: OpenKeeper,
        cluster: ClusterClient,
        *,
        consumer_id: str = "",
        attempts: Attempts,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
    ) -> None:
        super().__init__(cluster, key_deserializer=None, value_deserializer=None, interceptors=())
        if not topics:
            raise invalid("nothing to read: name topics; patterns are for a Consumer")
        group, consumer_id = self._group_id, consumer_id or str(uuid4())
        for name, value in (("group.id", group), ("consumer_id", consumer_id)):
            if not _NAME.fullmatch(value) or value in (".", ".."):
                raise invalid(
                    f"{name} is {value[:100]!r}: here it names a node of the keeper, and has 1 to"
                    " 200 letters, digits, '.', '_' or '-'"
                )
        self.member_id = f"{group}_{consumer_id}"
        self._topics = topics
        self._open_keeper = open_keeper
        self._attempts = attempts
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._news: deque[Event | SessionState] = deque()  # from another thread
        self._member: ZookeeperMember | None = None
        self._commits = KeeperCommits(cluster, self._ask, self._deserializing.notify_committed)

    def _ask(self, question: Callable[[ZookeeperMember], T]) -> T:
        """The result of a commit or of a lookup of committed offsets."""
        if self._member is None:
            raise Fenced(
                Code.UNKNOWN_MEMBER_ID,
                f"group {self._group_id!r}: this consumer is not a member (yet): poll for messages",
            )
        try:
            return question(self._member)
        except SessionExpired as problem:
            self._hear(SessionState.EXPIRED)
            raise Fenced(Code.UNKNOWN_MEMBER_ID, problem.detail) from None
        except (Unavailable, KeeperError) as problem:
            raise Retriable(Code.BROKER_NOT_AVAILABLE, str(problem)) from None

    def _hear(self, news: Event | SessionState) -> None:
        """On any thread."""
        self._news.append(news)
        self._group_changed()

    # --- between polls ---

    async def _between_polls(self, deadline: int | None) -> None:
        while self._news:
            self._attempts.hear(self._news.popleft())
        if self._attempts.expired:
            await self._lose()
        if self._member is None:
            self._news.clear()
            keeper = self._open_keeper(self._hear)
            self._member = ZookeeperMember(keeper, self._group_id, self.member_id, self._topics)
        if self._attempts.due(self._cluster.net.now_ms()):
            await self._rebalance(self._member)

    async def _lose(self) -> None:
        """Other members may own the partitions of this member by now: nothing is committed."""
        cause = Cause("expired", "the session of this member had expired")
        self._attempts.reopened()
        member, self._member = self._member, None
        if member is not None:
            _end_session(member)
        await self._let_go(cause, commit=False)

    async def _rebalance(self, member: ZookeeperMember) -> None:
        """Releases all partitions first, including those that it will own again."""
        net = self._cluster.net
        cause = Cause("rebalance", f"group {self._group_id!r}: {self._attempts.cause}")
        await self._let_go(cause, commit=self._auto_commit)
        try:
            member.release()
            view = member.look(net.wall_ms())
            held = member.claim(view)
        except SessionExpired:
            return self._hear(SessionState.EXPIRED)
        except (Unavailable, KeeperError) as problem:
            return self._try_again(str(problem))
        if held is not None:
            return self._try_again(str(held))
        self._attempts.done()
        partitions = sorted(member.owned)
        _log.info("%s: owns %s", cause, ", ".join(map(str, partitions)) or "nothing")
        for topic in sorted(topic for topic, found in view.partitions.items() if not found):
            _log.warning("group %r: topic %s is not in the keeper (yet)", self._group_id, topic)
        self._reader.add(partitions)
        await called(self._on_assigned, self._owner, partitions, cause)

    def _try_again(self, why: str) -> None:
        gave_up = self._attempts.failed(self._cluster.net.now_ms())
        about = f"group {self._group_id!r}, {self.member_id}: {why}"
        _log.warning("a rebalance failed: %s", about)
        if gave_up:
            raise RebalanceFailed(
                Code.REBALANCE_IN_PROGRESS,
                f"{about}, after rebalance.max.retries; this consumer owns nothing until it polls"
                " again",
            )

    async def _let_go(self, cause: Cause, *, commit: bool) -> None:
        partitions = self.assignment()
        if not partitions:
            return
        try:
            if commit:
                await self._commit_last(partitions)
            await called(self._on_revoked, self._owner, partitions, cause)
        finally:
            self._remove(partitions)

    def _until(self, deadline: int | None) -> int | None:
        again = self._attempts.next_deadline()
        if again is None or deadline is None:
            return again if deadline is None else deadline
        return min(deadline, again)

    def _others(self) -> Callable[[], Sequence[PendingResponse[WireMessage]]] | None:
        return lambda: ()  # the event is enough: it ends the wait after a change

    # --- offsets ---

    def _may_commit(self) -> bool:
        return self._member is not None

    async def _left_off(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, FetchPosition]:
        try:
            found = self._ask(lambda member: member.committed(partitions))
        except Fenced as problem:
            raise Retriable(problem.code, problem.detail) from None  # as a new member
        return {at: FetchPosition(offset) for at, offset in found.items()}

    # --- the end ---

    async def _leave(self, why: str = "") -> None:
        if self._member is None:
            return
        member, self._member = self._member, None
        cause = Cause("closed", "this consumer is being closed")
        try:
            await self._let_go(cause, commit=False)  # it is committed already
        finally:
            _end_session(member)


def _end_session(member: ZookeeperMember) -> None:
    """With it go all nodes of the member in the keeper; if it cannot be ended, it expires."""
    with suppress(KeeperError, KafkaError, OSError):
        member.keeper.close()


class MemberQuery(Protocol):
    """Uses the current member."""

    def __call__(self, question: Callable[[ZookeeperMember], T], /) -> T: ...


class KeeperCommits(OffsetCommits):
    """Offsets in the keeper: a synced write for each partition, without a check of the owner."""

    def __init__(
        self, cluster: ClusterClient, ask: MemberQuery, on_committed: Callable[[Offsets], None]
    ) -> None:
        super().__init__(cluster, lambda: None, on_committed)
        self._ask = ask

    async def soon(self, offsets: Offsets) -> None:
        """Commits at once: there is no background task."""
        if not offsets:
            return
        try:
            await self._once(offsets)
        except KafkaError as problem:
            self._kept.clear()
            _log.warning("a commit failed: %s", problem)

    async def found(self, partitions: list[TopicPartition]) -> Offsets:
        found = self._ask(lambda member: member.committed(partitions))
        return {at: Committed(offset) for at, offset in found.items()}

    async def _ready(self, deadline: int | None) -> bool:
        return True

    async def _once(self, offsets: Offsets) -> None:
        numbers = {at: place.offset for at, place in offsets.items()}
        self._ask(lambda member: member.commit(numbers))
        self._on_committed(offsets)


def _opener(zookeeper_connect: str, keeper_file: str, timeout_ms: int) -> OpenKeeper:
    if bool(zookeeper_connect) == bool(keeper_file):
        raise invalid("a group in the keeper needs zookeeper_connect, or keeper_file, not both")
    if keeper_file:
        if not os.path.exists(keeper_file):  # otherwise an empty file would be created
            raise invalid(f"keeper_file={keeper_file[:300]}: there is no such file")
        from barnabas.keeper.sqlite import SqliteKeeper

        return lambda listener: SqliteKeeper(keeper_file, timeout_ms, listener)
    try:
        from barnabas.keeper.zookeeper import ZookeeperKeeper
    except ModuleNotFoundError as missing:
        if missing.name != "kazoo":
            raise
        raise invalid(
            f"zookeeper_connect={zookeeper_connect} needs kazoo: pip install 'barnabas[zookeeper]'"
        ) from None
    return lambda listener: ZookeeperKeeper(zookeeper_connect, timeout_ms, listener)
