"""The state of one classic group.

In: changes by the functions of this folder (joining.py, membership.py, rebalance.py).
Out: the records and answers that those functions collected (`take`).
Always: the state changes by `move_to` alone; the memory that the group uses is counted in the
broker's total whenever it was changed.
Not here: what a request does (joining.py, membership.py), the phases of a rebalance
(rebalance.py), all groups together (groups/state.py).

A generation is in force from the moment its assignment is in the log. What comes before, the
joining and the waiting, is lost with the broker: members find the old generation and rejoin.
"""

from collections.abc import Mapping
from typing import Literal, Self

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic.member import ClassicMember
from barnabas.coordinators.groups.classic.members import MemberList
from barnabas.coordinators.groups.classic.states import ClassicGroupState, check_transition
from barnabas.coordinators.groups.history.rebalance_history import (
    RebalanceHistory,
    RebalanceListener,
)
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.memory import MEMBER_BYTES, names_bytes
from barnabas.coordinators.groups.records import GroupMetadataValue, GroupRecord, Record
from barnabas.coordinators.groups.replies import join_refused, sync_refused
from barnabas.coordinators.groups.subscription import CONSUMER
from barnabas.coordinators.groups.timer_keys import JOIN, SYNC, TimerKey
from barnabas.coordinators.runtime import Now, Outcome, ShardReply
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.sync_group import SyncGroupResponse


class PendingMembers(dict[str, Timer[TimerKey]]):
    """Member ids that were given out and not joined with yet, each with its timer."""

    bytes = 0  # of names that are longer than usual

    def __setitem__(self, id_: str, timer: Timer[TimerKey]) -> None:
        if id_ not in self:
            self.bytes += names_bytes(id_)
        super().__setitem__(id_, timer)

    def take(self, id_: str) -> Timer[TimerKey] | None:
        timer = super().pop(id_, None)
        if timer is not None:
            self.bytes -= names_bytes(id_)
        return timer

    def clear(self) -> None:
        super().clear()
        self.bytes = 0


class ClassicGroup:
    """One group. Functions change it and collect records and answers; `take` returns them."""

    type: Literal["classic"] = "classic"

    def __init__(
        self, id_: str, limits: GroupLimits, timers: Timers[TimerKey], history: RebalanceHistory
    ) -> None:
        self.id = id_
        self.limits = limits
        self.history = history
        self.state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol: str | None = None
        self.since_wall_ms = -1  # when it entered its state; -1 when the log does not say
        self.members = MemberList()
        self.topics: frozenset[str] | None = None
        self.pending = PendingMembers()
        self.unsynced: dict[str, None] = {}  # members of this generation that have not synced
        # Of the first rebalance after EMPTY: the delay under way, and by how much it may grow.
        self.initial_delay: tuple[int, int] | None = None
        self.has_newcomers = False  # since the initial delay began or was extended
        self.newcomer_ms = 0  # when the last of them came
        self.timers = timers
        self.join_timer: Timer[TimerKey] = Timer(TimerKey(JOIN, id_))
        self.sync_timer: Timer[TimerKey] = Timer(TimerKey(SYNC, id_))
        self._records: list[Record] = []
        self._answers: list[ShardReply] = []
        self._bytes = 0  # its part of the memory of all groups

    @classmethod
    def from_record(
        cls,
        id_: str,
        value: GroupMetadataValue,
        limits: GroupLimits,
        timers: Timers[TimerKey],
        listener: RebalanceListener | None = None,
    ) -> Self:
        """The group as the log has it: STABLE or EMPTY."""
        assigned = {member.member_id: member.assignment for member in value.members}
        history = RebalanceHistory(assigned, group=id_, listener=listener)
        group = cls(id_, limits, timers, history)
        group.generation = value.generation
        group.protocol = value.protocol
        group.since_wall_ms = value.current_state_timestamp
        members = group.members
        members.protocol_type = value.protocol_type or None
        for stored in value.members:
            member = ClassicMember.from_record(stored, value.protocol, id_)
            members.add(member, value.protocol_type or None)
        members.leader = value.leader
        if value.leader not in members.by_id:
            members.leader = next(iter(members.by_id), None)
        if value.members:
            group.state = ClassicGroupState.STABLE
        group.topics = members.topics(value.protocol)
        return group

    # Views

    @property
    def protocol_type(self) -> str:
        return self.members.protocol_type or ""

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_idle(self) -> bool:
        """It has no member, and no member id was given out."""
        return self.state is ClassicGroupState.EMPTY and not self.pending

    def subscribes_to(self, topic: str) -> bool:
        """A consumer whose subscription cannot be read may subscribe to any topic."""
        if self.topics is None:
            return self.members.protocol_type == CONSUMER
        return topic in self.topics

    # Changes

    def move_to(self, state: ClassicGroupState, now: Now | None = None) -> None:
        check_transition(self.id, self.state, state)
        self.state = state
        if now is not None:
            self.since_wall_ms = now.wall_ms

    def replayed(self, value: GroupMetadataValue) -> None:
        """The log has this generation: it is in force."""
        if self.state is ClassicGroupState.COMPLETING and value.generation == self.generation:
            for stored in value.members:
                self.members.by_id[stored.member_id].assignment = stored.assignment
            self.move_to(ClassicGroupState.STABLE)

    def end(self, code: Code) -> None:
        """It was deleted, is coordinated elsewhere, or is about to be read back from the log."""
        for member in tuple(self.members.by_id.values()):
            self.drop(member, code)
        for timer in self.pending.values():
            timer.stop()
        self.pending.clear()
        self.join_timer.stop()
        self.sync_timer.stop()
        self.move_to(ClassicGroupState.DEAD)
        self.count_memory()

    def heard(self, member: ClassicMember, now: Now) -> None:
        """The member is alive: its session starts again."""
        member.heard_ms = now.ms
        self.timers.set(member.session, now.ms + member.session_timeout_ms)

    def drop(self, member: ClassicMember, code: Code) -> None:
        """Remove a member; its waiting requests are answered with `code`."""
        self.answer_waiting(member, code)
        self.unsynced.pop(member.id, None)
        member.session.stop()
        self.members.remove(member)

    def drop_id(self, member_id: str) -> None:
        """Remove a member, or a member id that was given out."""
        pending = self.pending.take(member_id)
        if pending is not None:
            pending.stop()
        elif member_id in self.members.by_id:
            self.drop(self.members.by_id[member_id], Code.UNKNOWN_MEMBER_ID)

    def count_memory(self) -> None:
        """Add what changed since the last time to the memory of all groups."""
        size = self.members.bytes + self.pending.bytes
        there = len(self.members) + len(self.pending)
        if there:
            size += MEMBER_BYTES * there + names_bytes(self.id)
        self.limits.memory.used += size - self._bytes
        self._bytes = size

    # Records and answers

    def take(self, *, at_once: bool = False) -> Outcome[Record]:
        """The records and answers since the last call."""
        outcome = Outcome(tuple(self._records), tuple(self._answers), self.id, at_once)
        self._records.clear()
        self._answers.clear()
        self.count_memory()
        return outcome

    def store(self, assignments: Mapping[str, bytes]) -> None:
        """Write this generation with these assignments to the log."""
        members = self.members
        value = GroupMetadataValue(
            protocol_type=members.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=members.leader,
            current_state_timestamp=self.since_wall_ms,
            members=[
                member.to_record(self.protocol, assignments[member.id])
                for member in members.by_id.values()
            ],
        )
        self._records.append(GroupRecord(self.id, value))

    def answer(self, caller: Caller, response: ProtocolMessage) -> None:
        self._answers.append(ShardReply(caller.token, response))

    def answer_waiting(self, member: ClassicMember, code: Code, member_id: str = "") -> None:
        """Refuse the JoinGroup and the SyncGroup that the member waits with, if any."""
        joining = self.members.end_wait(member)
        if joining is not None:
            self.answer(joining, join_refused(code, member_id))
        if member.syncing is not None:
            self.answer(member.syncing, sync_refused(code))
            member.syncing = None

    def joined_response(
        self,
        member: ClassicMember,
        *,
        with_members: bool = False,
        skip_assignment: bool = False,
        leader: str | None = None,
    ) -> JoinGroupResponse:
        members = []
        if with_members:
            members = [
                JoinGroupResponseMember(
                    member_id=other.id,
                    group_instance_id=other.instance_id,
                    metadata=other.protocols.get(self.protocol or "", b""),
                )
                for other in self.members.by_id.values()
            ]
        return JoinGroupResponse(
            error_code=Code.NONE,
            generation_id=self.generation,
            protocol_type=self.members.protocol_type,
            protocol_name=self.protocol or "",
            leader=leader or self.members.leader or "",
            skip_assignment=skip_assignment,
            member_id=member.id,
            members=members,
        )

    def synced_response(self, assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(
            error_code=Code.NONE,
            protocol_type=self.members.protocol_type,
            protocol_name=self.protocol,
            assignment=assignment,
        )
