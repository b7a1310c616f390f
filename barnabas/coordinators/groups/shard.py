"""One shard of the group coordinator: what the runtime and the request handlers call.

In: requests about groups, records read back, deadlines. Out: outcomes for the runtime.
Always: each request has one operation here, which calls a function over the shard's state.
Not here: the state (state.py), the operations of members (classic/operations.py,
consumer/operations.py) and on offsets (offsets/operations.py), the partition that a group belongs
to (records.py), versions of a request that differ only in form (broker/handlers).
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups import records as records_
from barnabas.coordinators.groups.classic import membership as classic_membership
from barnabas.coordinators.groups.classic import operations as classic_operations
from barnabas.coordinators.groups.classic import rebalance
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.consumer import heartbeats
from barnabas.coordinators.groups.consumer import membership as consumer_membership
from barnabas.coordinators.groups.consumer import operations as consumer_operations
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, RebalanceCause
from barnabas.coordinators.groups.history.statistics import RebalanceStatistics
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.offsets import operations as offset_operations
from barnabas.coordinators.groups.offsets import retention, transactional
from barnabas.coordinators.groups.records import OffsetRecord, Record
from barnabas.coordinators.groups.replies import not_written
from barnabas.coordinators.groups.share import operations as share_operations
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.share.shard_operations import ShareShard
from barnabas.coordinators.groups.state import Group, ShardState
from barnabas.coordinators.groups.timer_keys import JOIN, RETENTION, SESSION, TARGET
from barnabas.coordinators.groups.topics import NoTopics, TopicsPort
from barnabas.coordinators.runtime import Now, Outcome, ShardReply, TransactionMarker
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponseTopics,
)
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from barnabas.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class GroupShard:
    """The groups of one partition of __consumer_offsets."""

    def __init__(
        self,
        limits: GroupLimits,
        rebalance_statistics: RebalanceStatistics | None = None,
        topics: TopicsPort | None = None,
    ) -> None:
        state = ShardState(
            limits, rebalance_statistics or RebalanceStatistics(), topics or NoTopics()
        )
        self._state = state
        self.limits = limits
        self.rebalance_statistics = state.rebalance_statistics
        self.generations = state.generations
        self.consumers = state.consumers
        self.shares = state.shares
        self.streams = state.streams
        self.share = ShareShard(state)
        self.offsets = state.offsets
        self.pending = state.pending
        self.replay = state.replay  # not a method: a shard is loaded from millions of records
        self.replay_pending = state.replay_pending
        self.end_transaction = state.end_transaction

    # What the runtime calls

    def encode(self, records: Sequence[Record]) -> list[tuple[bytes, bytes | None]]:
        return records_.encode(records)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return records_.decode(key, value)

    def loaded(self, now: Now) -> None:
        """The log is read: groups with members become active."""
        state = self._state
        for id_, value in state.generations.items():
            if value.members:
                _start(state.activate(id_), now)
        for stored in state.with_members():
            if stored.members:
                _start(state.activate(stored.id), now)
        state.timers.set(state.retention_timer, now.ms + self.limits.offsets_retention_check_ms)

    def unloaded(self, parked: tuple[ShardReply, ...]) -> tuple[ShardReply, ...]:
        """This broker no longer coordinates the groups: all waiting requests are answered."""
        state = self._state
        answers = [
            ShardReply(token, not_written(response, Code.NOT_COORDINATOR))
            for token, response in parked
        ]
        for group in state.active.values():
            answers += _end(group, Code.NOT_COORDINATOR)
        state.active.clear()
        for stored in state.with_members():
            self.limits.memory.used -= stored.bytes
        return tuple(answers)

    def refused(self, outcome: Outcome[Record], code: Code, now: Now) -> tuple[ShardReply, ...]:
        """The records were not written: the group is made again from the log, and classic members
        rejoin."""
        state = self._state
        answers = [
            ShardReply(token, not_written(response, code)) for token, response in outcome.answers
        ]
        if outcome.divisible and not answers:
            retention.postpone(state, now)
        if all(isinstance(record, OffsetRecord) for record in outcome.records):
            return tuple(answers)
        group = state.active.pop(outcome.subject, None)
        if group is None:
            return tuple(answers)
        state.initializations = [i for i in state.initializations if i.group != outcome.subject]
        answers += _end(group, Code.COORDINATOR_NOT_AVAILABLE)
        if state.is_stored(outcome.subject):
            again = state.activate(outcome.subject)
            again.history = group.history
            again.history.happened(RebalanceCause(CauseKind.NOT_STORED, reason=code.name), now)
            _start(again, now)
        return tuple(answers)

    def next_deadline(self) -> int | None:
        return self._state.timers.next_deadline()

    def due(self, now: Now) -> Outcome[Record] | None:
        """The effect of one deadline that has passed; None when there is no other."""
        state = self._state
        timer = state.timers.pop_due(now.ms)
        if timer is None:
            return None
        kind, group_id, member_id = timer.key
        if kind == RETENTION:
            return retention.check(state, now)
        return self._over(kind, group_id, member_id, now)

    def session_over(self, group_id: str, member_id: str, now: Now) -> Outcome[Record]:
        """As if the session of a member had timed out: for tests of applications."""
        return self._over(SESSION, group_id, member_id, now)

    def rejoin_all(self, group_id: str, now: Now) -> Outcome[Record]:
        """Every member of a classic group must join again: for tests of applications."""
        group = self._state.active.get(group_id)
        if not isinstance(group, ClassicGroup):
            return Outcome()
        group.history.happened(RebalanceCause(CauseKind.REQUESTED), now)
        rebalance.rebalance(group, now)
        return self._state.take(group)

    def _over(self, kind: str, group_id: str, member_id: str, now: Now) -> Outcome[Record]:
        state = self._state
        group = state.active.get(group_id)
        if group is None:
            return Outcome()
        if isinstance(group, ShareGroup):
            return share_operations.session_over(group, member_id, now)
        if group.type == "streams":
            from barnabas.coordinators.groups.streams import operations as streams_operations

            return streams_operations.expired(group, kind, member_id, now)
        if isinstance(group, ConsumerGroup):
            if kind == TARGET:
                records, answers = heartbeats.target_due(group, member_id, now)
                return Outcome(tuple(records), answers, group.id)
            member = consumer_membership.expired(group, kind, member_id, now)
            late = [] if member is None else [member]
            return consumer_operations.remove_members(state, group, late, (), now)
        if kind == SESSION:
            classic_membership.session_expired(group, member_id, now)
        elif kind == JOIN:
            rebalance.join_expired(group, now)
        else:
            rebalance.sync_expired(group, now)
        return state.take(group)

    # Members

    def join(
        self, request: JoinGroupRequest, caller: Caller, uuid: str, now: Now
    ) -> Outcome[Record]:
        """`uuid`: random text for the id of a member that has none."""
        return classic_operations.join(self._state, request, caller, uuid, now)

    def sync(self, request: SyncGroupRequest, caller: Caller, now: Now) -> Outcome[Record]:
        return classic_operations.sync(self._state, request, caller, now)

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now: Now) -> Outcome[Record]:
        return classic_operations.heartbeat(self._state, request, caller, now)

    def leave(self, request: LeaveGroupRequest, caller: Caller, now: Now) -> Outcome[Record]:
        return classic_operations.leave(self._state, request, caller, now)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, uuid: str, now: Now
    ) -> Outcome[Record]:
        """`uuid`: random text for the id of a member that has none."""
        return consumer_operations.heartbeat(self._state, request, caller, uuid, now)

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, now: Now
    ) -> Outcome[Record]:
        return share_operations.heartbeat(self._state, request, caller, now)

    def streams_heartbeat(
        self, request: "StreamsGroupHeartbeatRequest", caller: Caller, now: Now
    ) -> Outcome[Record]:
        from barnabas.coordinators.groups.streams import operations as streams_operations

        return streams_operations.heartbeat(self._state, request, caller, now)

    # Offsets

    def commit(self, request: OffsetCommitRequest, caller: Caller, now: Now) -> Outcome[Record]:
        """Topics by name: their ids, if the request has them, are returned as they are."""
        return offset_operations.commit(self._state, request, caller, now)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, guard: object, caller: Caller, now: Now
    ) -> Outcome[Record]:
        """`guard`: that of the log, if the transaction is not open in it yet."""
        return transactional.commit(self._state, request, guard, caller, now)

    def end_transaction_of(
        self, marker: TransactionMarker, response: WriteTxnMarkersResponse, caller: Caller
    ) -> Outcome[Record]:
        """`response`: for when the marker is committed."""
        return transactional.end(marker, response, caller)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> Code:
        return offset_operations.check_fetch(self._state, group_id, member_id, epoch)

    def fetch(
        self,
        group_id: str,
        topics: list[OffsetFetchRequestTopics] | None,
        *,
        stable: bool = False,
    ) -> list[OffsetFetchResponseTopics]:
        """`stable`: no offset that an open transaction may change."""
        return offset_operations.fetch(self._state, group_id, topics, stable=stable)

    def delete_offsets(self, request: OffsetDeleteRequest, caller: Caller) -> Outcome[Record]:
        return offset_operations.delete(self._state, request, caller)

    # Administration

    def group(self, group_id: str) -> Group | None:
        """For reading only."""
        return self._state.look(group_id)

    def groups(self) -> Iterable[Group]:
        """All groups ordered by id, for reading only."""
        return self._state.all_groups()

    def live(self) -> list[str]:
        """The groups that have members."""
        return [id_ for id_, group in self._state.active.items() if group.size]

    def delete(self, group_ids: Iterable[str], caller: Caller) -> Outcome[Record]:
        """Delete empty groups with their offsets; each succeeds or fails on its own."""
        state = self._state
        records: list[Record] = []
        results = []
        for group_id in dict.fromkeys(group_ids):
            group = state.find(group_id)
            code = Code.NONE
            if group is None:
                code = Code.GROUP_ID_NOT_FOUND
            elif group.size or (
                isinstance(group, ClassicGroup) and group.state is not ClassicGroupState.EMPTY
            ):
                code = Code.NON_EMPTY_GROUP
            else:
                records += state.offsets.group_tombstones(group_id)
                records += (
                    OffsetRecord(*key, None)
                    for key in state.pending.of_group(group_id)
                    if state.offsets.find(*key) is None
                )
                records += state.group_tombstones(group_id)
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        response = DeleteGroupsResponse(results=results)
        # Offsets before their group: if only some are written, the group can be deleted again.
        return Outcome(tuple(records), (ShardReply(caller.token, response),), divisible=True)

    def configured(self, group_id: str) -> None:
        """The group's configuration has changed. A session under way keeps its length."""
        group = self._state.active.get(group_id)
        if group is not None and group.type != "classic":
            group.limits = self.limits.of_group(group_id)

    def topics_changed(self, names: frozenset[str], *, of_names: bool) -> None:
        """Topics were created, deleted or changed. `of_names`: patterns may match others now."""
        for group in self._state.active.values():
            if isinstance(group, ShareGroup):
                group.topics_stale |= any(group.subscribes_to(name) for name in names)
            elif group.type == "streams":
                group.topics_stale |= any(group.needs(name) for name in names)
            elif isinstance(group, ConsumerGroup) and not group.topics_stale:
                group.topics_stale = (of_names and bool(group.stored.by_regex)) or any(
                    group.subscribes_to(name) for name in names
                )


def _start(group: Group, now: Now) -> None:
    if isinstance(group, ClassicGroup):
        rebalance.loaded(group, now)
    else:
        group.loaded(now)


def _end(group: Group, code: Code) -> tuple[ShardReply, ...]:
    """The answers to all clients that wait."""
    group.end(code)
    return group.take().answers if isinstance(group, ClassicGroup) else group.take_refused()
