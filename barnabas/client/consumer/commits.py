"""Commits a group's offsets: on request, automatically at intervals, and before a close or
revocation.

In: offsets, or the used positions of a reader. Out: OffsetCommit requests, in order.
Always: the result of an asynchronous commit is read by the next poll, or by the close; automatic
commits cover only used messages.
Not here: what has been used (message_stream.py), the requests (offset_lookup.py).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.membership.membership import CommitterIdentity
from barnabas.client.consumer.message import Message
from barnabas.client.consumer.offset_lookup import (
    COMMIT_VERSION_MAX,
    Committed,
    check_committed,
    commit_request,
    fetch_committed,
)
from barnabas.client.consumer.positions import FetchPosition
from barnabas.client.consumer.seeking import At, Numbers
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.net import PendingResponse
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Fenced, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_commit import OffsetCommitResponse

_log = logging.getLogger("barnabas.client")
_LAST_MS_MAX = 5_000  # how long a close or a revocation waits for its commit

Places = Mapping[TopicPartition, FetchPosition]
Offsets = dict[TopicPartition, Committed]
GivenOffsets = Numbers | Mapping[TopicPartition, Committed] | Mapping[At, Committed]


class OffsetCommits:
    """`commits_as`: the member, or none; `on_committed`: called with committed offsets."""

    def __init__(
        self,
        cluster: ClusterClient,
        commits_as: Callable[[], CommitterIdentity | None],
        on_committed: Callable[[Offsets], None],
    ) -> None:
        self._cluster = cluster
        self._group_id = cluster.config.group_id
        self._commits_as = commits_as
        self._on_committed = on_committed
        self._waiting: list[tuple[PendingResponse[OffsetCommitResponse], Offsets]] = []
        self._kept: Offsets = {}  # as last committed automatically
        self._next_at = 0
        config = cluster.config
        self._limits = (
            f" (session.timeout.ms={config.session_timeout_ms},"
            f" max.poll.interval.ms={config.max_poll_interval_ms},"
            f" max.poll.records={config.max_poll_records})"
        )
        self._finding = cluster.net.bounded_task()

    async def now(self, offsets: Offsets) -> None:
        """Commit, and wait for the result."""
        self._check_group()
        if offsets:
            await self._cluster.retrying(lambda: self._once(offsets))

    async def soon(self, offsets: Offsets) -> None:
        """Send a commit without waiting for its result."""
        self._check_group()
        if offsets:
            self._waiting.append((await self._send(offsets), offsets))

    async def now_and_then(self, places: Callable[[], Places], deadline: int | None) -> None:
        """Commit the changed offsets if the interval has passed, and if the coordinator is found
        before the deadline.
        """
        now = self._cluster.net.now_ms()
        if now < self._next_at:
            return
        try:
            if not await self._ready(deadline):
                return
        except Retriable as problem:
            self._next_at = now + self._cluster.config.retry_backoff_ms
            _log.warning("a commit is delayed, no coordinator: %s", problem)
            return
        self._next_at = now + self._cluster.config.auto_commit_interval_ms
        offsets = as_offsets(places())
        news = {at: place for at, place in offsets.items() if self._kept.get(at) != place}
        self._kept.update(news)
        try:
            await self.soon(news)
        except Retriable as problem:
            self._kept.clear()
            _log.warning("a commit failed: %s", problem)

    async def last(self, places: Places) -> None:
        """Commit before partitions are revoked. A failure is only logged: it cannot be repaired."""
        offsets = as_offsets(places)
        if not offsets:
            return
        limit_ms = min(_LAST_MS_MAX, self._cluster.config.default_api_timeout_ms)
        try:
            await self._cluster.retrying(lambda: self._once(offsets), timeout_ms=limit_ms)
        except KafkaError as problem:
            _log.warning("the last commit failed: %s", problem)
        for at in offsets:
            self._kept.pop(at, None)

    async def gather(self, *, wait: bool = False) -> None:
        """Read the responses that have arrived; at the close, wait for all."""
        while self._waiting and (wait or self._waiting[0][0].done()):
            answer, offsets = self._waiting.pop(0)
            try:
                check_committed(self._group_id, await answer, self._limits)
            except KafkaError as problem:
                self._kept.clear()
                if isinstance(problem, Retriable):
                    self._cluster.forget_coordinator(self._group_id)
                    self._cluster.drop_closed()
                _log.warning("a commit failed: %s", problem)
            else:
                self._on_committed(offsets)

    async def found(self, partitions: list[TopicPartition]) -> Offsets:
        """The committed offsets of these partitions, where there are any."""
        self._check_group()
        return await self._cluster.retrying(
            lambda: fetch_committed(self._cluster, self._group_id, partitions)
        )

    async def left_off(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, FetchPosition]:
        """The committed offsets to start from; one attempt."""
        try:
            found = await fetch_committed(self._cluster, self._group_id, partitions)
        except Retriable:
            self._cluster.forget_coordinator(self._group_id)
            raise
        return {at: FetchPosition(place.offset, place.leader_epoch) for at, place in found.items()}

    def group_metadata(self, *, by_itself: bool) -> GroupMetadata:
        """The committer, for a transaction. `by_itself`: the consumer commits automatically."""
        if not self._group_id:
            raise invalid("offsets are committed for a group: set group.id")
        if by_itself:
            raise invalid(
                "offsets that a transaction commits must not be committed by the consumer as well:"
                " set enable.auto.commit=false"
            )
        member = self._commits_as()
        if member is None:
            return GroupMetadata(self._group_id)
        return GroupMetadata(
            self._group_id, member.generation, member.member_id, member.instance_id
        )

    def not_assigned(self, at: TopicPartition, why: str) -> Fenced:
        return Fenced(
            Code.ILLEGAL_GENERATION,
            f"group {self._group_id!r}: not committed, {at} is not assigned to this consumer (any"
            f" more){why}. Its new owner reads on from the last commit",
        )

    async def _ready(self, deadline: int | None) -> bool:
        """Whether a commit could be sent at once."""
        if self._cluster.coordinator_connected(self._group_id) is not None:
            return True
        seek = self._cluster.coordinator
        return await self._finding.done(lambda: seek(self._group_id), deadline)

    def _check_group(self) -> None:
        if not self._group_id:
            raise invalid("commits need a group: set group.id")

    async def _once(self, offsets: Offsets) -> None:
        answer = await self._send(offsets)
        check_committed(self._group_id, await answer, self._limits)
        self._on_committed(offsets)

    async def _send(self, offsets: Offsets) -> PendingResponse[OffsetCommitResponse]:
        connection = await self._cluster.coordinator(self._group_id)
        return connection.send(
            commit_request(self._group_id, self._commits_as(), offsets),
            OffsetCommitResponse,
            timeout_ms=self._cluster.timeout_ms,
            version_max=COMMIT_VERSION_MAX,
        )


def offsets_of(what: Message[Any, Any] | GivenOffsets) -> Offsets:
    """The offsets to commit: these, or the offset after a message."""
    if isinstance(what, Mapping):
        return {
            TopicPartition(*at): place if isinstance(place, Committed) else Committed(place)
            for at, place in what.items()
        }
    at = TopicPartition(what.topic, what.partition)
    return {at: Committed(what.offset + 1, what.leader_epoch)}


def as_offsets(places: Places) -> Offsets:
    return {at: Committed(place.offset, place.leader_epoch) for at, place in places.items()}
