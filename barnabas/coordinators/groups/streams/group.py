"""The state of one streams group: what the log has, the timers of its members, its topics.

In: changes by the functions of this folder. Out: timers that are set, whether a member may commit.
Always: `stored` is what the log has and changes by replay alone; everything else is lost with the
broker.
Not here: what a heartbeat does (heartbeats.py), other operations (operations.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from barnabas.coordinators.groups.consumer.membership import COMMIT_WITH_EPOCH_SINCE
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.history.rebalance_history import (
    CauseKind,
    RebalanceCause,
    RebalanceHistory,
)
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.member_sessions import MemberSessions
from barnabas.coordinators.groups.streams.member import StreamsMember
from barnabas.coordinators.groups.streams.stored import StoredStreamsGroup, StreamsGroupState
from barnabas.coordinators.groups.streams.topics import ConfiguredTopology
from barnabas.coordinators.groups.streams.topology import source_topics
from barnabas.coordinators.groups.timer_keys import REVOKE, TimerKey
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Now, ShardReply
from barnabas.coordinators.timers import Timers
from barnabas.model.errors import Code
from barnabas.model.ids import TopicPartition


class StreamsGroup:
    """One streams group."""

    type: Literal["streams"] = "streams"
    protocol_type = "streams"

    def __init__(
        self,
        stored: StoredStreamsGroup,
        limits: GroupLimits,
        timers: Timers[TimerKey],
        topics_port: TopicsPort,
        history: RebalanceHistory,
    ) -> None:
        self.id = stored.id
        self.stored = stored
        self.limits = limits
        self.history = history
        self.topics_port = topics_port
        self.topics_stale = True  # topics may have changed since the group's epoch
        self.configured: ConfiguredTopology | None = None
        self.missing_since_ms: int | None = None  # internal topics are to be created
        self.gathering: tuple[int, int] | None = None  # since when, and the last member's time
        self.shutdown_by: str | None = None  # the member that asked all to stop
        self.endpoint_epoch = 0
        # Who knows the endpoints of this epoch. After a restart nobody does, whatever number it
        # sends: epochs begin again.
        self.informed: set[str] = set()
        self.sessions = MemberSessions(stored.id, timers)
        self.behind: dict[str, None] = {}  # members that have not reached the target

    # Views

    @property
    def state(self) -> StreamsGroupState:
        return self.stored.state

    @property
    def size(self) -> int:
        return len(self.stored.members)

    @property
    def generation(self) -> int:
        return self.stored.epoch

    @property
    def is_idle(self) -> bool:
        return not self.stored.members

    @property
    def topics(self) -> frozenset[str]:
        """That members read."""
        topology = self.stored.topology
        if topology is None or not self.stored.members:
            return frozenset()
        return frozenset(topology.readers)

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics

    def needs(self, topic: str) -> bool:
        """Whether the topic matters for its tasks, also as an internal topic."""
        topology = self.stored.topology
        return topology is not None and topic in topology.required_topics()

    def read_partitions(self, tasks: Mapping[str, Iterable[int]]) -> Iterator[TopicPartition]:
        """The partitions that active tasks read. A topic may have fewer than there are tasks."""
        parts = {} if self.stored.topology is None else self.stored.topology.subtopologies
        for id_, numbers in tasks.items():
            part = parts.get(id_)
            for name in () if part is None else source_topics(part):
                topic = self.topics_port.find(name)
                count = 0 if topic is None else topic.partitions
                yield from (TopicPartition(name, number) for number in numbers if number < count)

    def cause(
        self,
        kind: CauseKind,
        member: StreamsMember,
        *,
        waited_ms: int = 0,
        allowed_ms: int = 0,
    ) -> RebalanceCause:
        return RebalanceCause(
            kind,
            member.id,
            member.client_id,
            member.client_host,
            waited_ms=waited_ms,
            allowed_ms=allowed_ms,
            connection=self.sessions.connection(member.id),
        )

    # Start and end

    def loaded(self, now: Now) -> None:
        """Sessions start now."""
        for member in self.stored.members.values():
            self.heard(member.id, now)
            self.watch_revocation(member, now)

    def end(self, code: Code) -> None:
        """It was deleted, is coordinated elsewhere, or is about to be read back from the log."""
        self.sessions.end_all()

    def take_refused(self) -> tuple[ShardReply, ...]:
        """No request waits for others."""
        return ()

    # Members

    def heard(self, member_id: str, now: Now) -> None:
        """The member is alive: its session starts again."""
        self.sessions.heard(member_id, self.limits.streams_session_timeout_ms, now)

    def watch_revocation(self, member: StreamsMember, now: Now) -> None:
        """A member that must release tasks has its rebalance timeout for it."""
        if member.state is MemberState.UNREVOKED:
            deadline = now.ms + max(0, member.rebalance_timeout_ms)
            self.sessions.start_timer(REVOKE, member.id, deadline)
        else:
            self.sessions.stop_timer(REVOKE, member.id)

    def drop_member(self, member_id: str) -> None:
        self.behind.pop(member_id, None)
        self.informed.discard(member_id)
        self.sessions.end(member_id)

    # Offsets

    def check_commit(
        self, member_id: str, epoch: int, version: int, partitions: Iterable[tuple[str, int]]
    ) -> Code:
        """May these offsets be committed? An older epoch may commit partitions of tasks that the
        member has had since."""
        stored = self.stored
        if epoch < 0 and not stored.members:
            return Code.NONE
        member = stored.members.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        if version < COMMIT_WITH_EPOCH_SINCE:
            return Code.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return Code.NONE
        if epoch > member.epoch or stored.topology is None:
            return Code.STALE_MEMBER_EPOCH
        for name, partition in partitions:
            reader = stored.topology.readers.get(name)
            since = None if reader is None else member.held_since(reader, partition)
            if since is None or epoch < since:
                return Code.STALE_MEMBER_EPOCH
        return Code.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> Code:
        """May this client fetch committed offsets? None and -1: a program outside the group."""
        if member_id is None and epoch < 0:
            return Code.NONE
        member = self.stored.members.get(member_id or "")
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if epoch == member.epoch else Code.STALE_MEMBER_EPOCH
