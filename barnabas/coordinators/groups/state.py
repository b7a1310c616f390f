"""The state of one shard: all groups of one partition of __consumer_offsets.

In: records, replayed in the order of the log. Out: groups by id.
Always: `generations`, `consumers`, `shares`, `streams` and `offsets` are exactly what the log has,
and change by `replay` alone. An active group, with the timers of its members, is made from them
when it is first needed; it is a classic, a consumer, a share or a streams group, as the log has it.
A group that only has offsets is a classic group without members. The code of streams groups is
imported with the first of them.
Not here: the operations (classic/operations.py, consumer/operations.py, share/operations.py,
streams/operations.py, offsets/operations.py).
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from msgspec.structs import replace

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.records import EPOCH_KEY, ConsumerRecord
from barnabas.coordinators.groups.consumer.stored import StoredConsumerGroup
from barnabas.coordinators.groups.consumer.target import named_partitions
from barnabas.coordinators.groups.history.rebalance_history import RebalanceHistory
from barnabas.coordinators.groups.history.statistics import RebalanceStatistics
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.offsets.pending import PendingOffsets
from barnabas.coordinators.groups.offsets.store import CommittedOffsets
from barnabas.coordinators.groups.records import (
    GroupMetadataValue,
    GroupRecord,
    OffsetRecord,
    Record,
)
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.share.heartbeats import StateInitialization
from barnabas.coordinators.groups.share.records import SHARE_EPOCH_KEY, ShareGroupRecord
from barnabas.coordinators.groups.share.stored import StoredShareGroup
from barnabas.coordinators.groups.timer_keys import RETENTION, TimerKey
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Outcome, ShardReply
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage

if TYPE_CHECKING:
    from barnabas.coordinators.groups.streams.group import StreamsGroup
    from barnabas.coordinators.groups.streams.records import StreamsGroupRecord
    from barnabas.coordinators.groups.streams.stored import StoredStreamsGroup

Group: TypeAlias = Union[ClassicGroup, ConsumerGroup, ShareGroup, "StreamsGroup"]


class ShardState:
    """Groups by id."""

    def __init__(
        self, limits: GroupLimits, rebalance_statistics: RebalanceStatistics, topics: TopicsPort
    ) -> None:
        self.limits = limits
        self.rebalance_statistics = rebalance_statistics
        self.topics = topics
        # What the log has.
        self.generations: dict[str, GroupMetadataValue] = {}
        self.consumers: dict[str, StoredConsumerGroup] = {}
        self.shares: dict[str, StoredShareGroup] = {}
        self.streams: dict[str, StoredStreamsGroup] = {}
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        # What is lost with the broker.
        self.active: dict[str, Group] = {}
        self.timers: Timers[TimerKey] = Timers()
        self.retention_timer: Timer[TimerKey] = Timer(TimerKey(RETENTION))
        self.retention_queue: list[str] = []  # groups still to be looked at in this round
        self.initializations: list[StateInitialization] = []  # for the share coordinator

    # Replay

    def replay(self, record: Record) -> None:
        if isinstance(record, OffsetRecord):
            self.offsets.replay(record)
            if self.pending:
                self.pending.committed(record)
            if record.value is None and (group := self.active.get(record.group)) is not None:
                self.drop_if_unused(group)
            return
        group = self.active.get(record.group)
        if isinstance(record, GroupRecord):
            self._replay_generation(record, group if isinstance(group, ClassicGroup) else None)
        elif isinstance(record, ConsumerRecord):
            active = group if isinstance(group, ConsumerGroup) else None
            self._replay_stored(record, self.consumers, StoredConsumerGroup, EPOCH_KEY, active)
        elif isinstance(record, ShareGroupRecord):
            shared = group if isinstance(group, ShareGroup) else None
            self._replay_stored(record, self.shares, StoredShareGroup, SHARE_EPOCH_KEY, shared)
        else:
            from barnabas.coordinators.groups.streams.records import STREAMS_EPOCH_KEY
            from barnabas.coordinators.groups.streams.stored import StoredStreamsGroup

            streams = group if group is not None and group.type == "streams" else None
            self._replay_stored(
                record, self.streams, StoredStreamsGroup, STREAMS_EPOCH_KEY, streams
            )

    def replay_pending(self, record: Record, producer_id: int) -> None:
        """A record of a transaction that is still open; there are none but of offsets."""
        if isinstance(record, OffsetRecord):
            self.pending.replay(record, producer_id)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        groups = self.pending.groups()
        for record in self.pending.end(producer_id, commit=commit):
            self.offsets.replay(record)
        for group_id in groups:
            group = self.active.get(group_id)
            if group is not None:
                self.drop_if_unused(group)

    def _replay_generation(self, record: GroupRecord, group: ClassicGroup | None) -> None:
        if record.value is None:
            self.generations.pop(record.group, None)
            if group is not None:
                del self.active[record.group]
                group.end(Code.COORDINATOR_NOT_AVAILABLE)
        else:
            self.generations[record.group] = record.value
            if group is not None:
                group.replayed(record.value)

    def _replay_stored(
        self,
        record: "ConsumerRecord | ShareGroupRecord | StreamsGroupRecord",
        groups: dict[str, Any],
        make: Callable[[str], Any],
        epoch_key: int,
        group: Any,
    ) -> None:
        """A record of a group whose members have records of their own. Without its epoch it is
        deleted. `group`: the active one, if it is of this type."""
        stored = groups.get(record.group)
        before = 0 if stored is None else stored.bytes
        if record.value is None and record.key == epoch_key:
            groups.pop(record.group, None)
            self.limits.memory.used -= before
            if group is not None and stored is not None:
                del self.active[record.group]
                group.end(Code.COORDINATOR_NOT_AVAILABLE)
            return
        if stored is None:
            if record.value is None:
                return
            stored = groups[record.group] = make(record.group)
        if group is not None:
            group.stored = stored
        stored.replay(record)
        self.limits.memory.used += stored.bytes - before

    def with_members(self) -> "list[StoredConsumerGroup | StoredShareGroup | StoredStreamsGroup]":
        """The groups whose members have records of their own."""
        return [*self.consumers.values(), *self.shares.values(), *self.streams.values()]

    # Finding groups

    def ids(self) -> dict[str, None]:
        return dict.fromkeys(
            (
                *self.active,
                *self.generations,
                *self.consumers,
                *self.shares,
                *self.streams,
                *self.offsets.by_group,
                *self.pending.groups(),
            )
        )

    def is_stored(self, group_id: str) -> bool:
        """Does the log have the group, or offsets of it?"""
        return (
            group_id in self.generations
            or group_id in self.consumers
            or group_id in self.shares
            or group_id in self.streams
            or self.has_offsets(group_id)
        )

    def has_offsets(self, group_id: str) -> bool:
        """Committed, or pending in a transaction."""
        return group_id in self.offsets.by_group or (
            bool(self.pending) and self.pending.has_group(group_id)
        )

    def look(self, group_id: str) -> Group | None:
        """The group, for reading only. It does not become active."""
        return self.active.get(group_id) or self._from_log(group_id)

    def all_groups(self) -> Iterable[Group]:
        """All groups ordered by id, for reading only."""
        for group_id in sorted(self.ids()):
            group = self.look(group_id)
            if group is not None:
                yield group

    def find(self, group_id: str) -> Group | None:
        """The group, active from now on."""
        group = self.active.get(group_id)
        if group is None and self.is_stored(group_id):
            group = self.activate(group_id)
        return group

    def activate(self, group_id: str) -> Group:
        """Make the group from what the log has."""
        group = self._from_log(group_id)
        assert group is not None, f"the log has no group {group_id!r}"
        self.active[group_id] = group
        return group

    def _from_log(self, group_id: str) -> Group | None:
        stored = self.consumers.get(group_id)
        if stored is not None:
            return self.new_consumer_group(stored)
        shared = self.shares.get(group_id)
        if shared is not None:
            return self.new_share_group(shared)
        streaming = self.streams.get(group_id)
        if streaming is not None:
            return self.new_streams_group(streaming)
        value = self.generations.get(group_id)
        if value is not None:
            return self.classic_group_of(group_id, value)
        return self.new_classic_group(group_id) if self.has_offsets(group_id) else None

    # Making groups; none of these is active yet

    def new_classic_group(self, group_id: str) -> ClassicGroup:
        history = RebalanceHistory(group=group_id, listener=self.rebalance_statistics)
        return ClassicGroup(group_id, self.limits, self.timers, history)

    def classic_group_of(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        statistics = self.rebalance_statistics
        return ClassicGroup.from_record(group_id, value, self.limits, self.timers, statistics)

    def new_consumer_group(
        self, stored: StoredConsumerGroup, history: RebalanceHistory | None = None
    ) -> ConsumerGroup:
        if history is None:
            assignments = {
                member_id: tuple(named_partitions(target, self.topics))
                for member_id, target in stored.targets.items()
            }
            statistics = self.rebalance_statistics
            history = RebalanceHistory(assignments, group=stored.id, listener=statistics)
        limits = self.limits.of_group(stored.id)
        return ConsumerGroup(stored, limits, self.timers, self.topics, history)

    def new_share_group(self, stored: StoredShareGroup) -> ShareGroup:
        history = RebalanceHistory(group=stored.id, listener=self.rebalance_statistics)
        limits = self.limits.of_group(stored.id)
        return ShareGroup(stored, limits, self.timers, self.topics, history)

    def new_streams_group(self, stored: "StoredStreamsGroup") -> "StreamsGroup":
        from barnabas.coordinators.groups.streams.group import StreamsGroup

        history = RebalanceHistory(group=stored.id, listener=self.rebalance_statistics)
        limits = self.limits.of_group(stored.id)
        return StreamsGroup(stored, limits, self.timers, self.topics, history)

    # Ending groups

    def group_tombstones(self, group_id: str) -> list[Record]:
        """Delete the group itself; its offsets have tombstones of their own."""
        for stored in (self.consumers, self.shares, self.streams):
            if group_id in stored:
                return [*stored[group_id].tombstones()]
        return [GroupRecord(group_id, None)]

    def take(self, group: ClassicGroup) -> Outcome[Record]:
        """The outcome of an operation on the group; a group without members or records goes."""
        outcome = group.take()
        if not outcome.records:
            self.drop_if_unused(group)
        return outcome

    def drop_if_unused(self, group: Group) -> None:
        if group.is_idle and not self.is_stored(group.id):
            self.active.pop(group.id, None)


def reply(caller: Caller, response: ProtocolMessage) -> Outcome[Record]:
    return Outcome(answers=(ShardReply(caller.token, response),))


def and_reply(
    caller: Caller, response: ProtocolMessage, outcome: Outcome[Record] | None
) -> Outcome[Record]:
    """The caller's answer before those of the outcome."""
    if outcome is None:
        return reply(caller, response)
    return replace(outcome, answers=(ShardReply(caller.token, response), *outcome.answers))
