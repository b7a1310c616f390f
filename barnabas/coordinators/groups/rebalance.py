"""Takes a group from one generation to the next: join phase, sync phase, assignment.

In: members that came or went, deadlines. Out: answers to all who waited, records to keep.
Always: an assignment is told to nobody before it is in the log; every phase has a deadline.
Not here: which requests are let in (classic.py).

A generation lives in the log from the moment its assignment is there. What comes before, the
joining and the waiting, is lost with the broker: its members find the old generation and rejoin.
"""

from collections.abc import Mapping
from typing import Self

from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.member import Caller, Member, TimerKey
from barnabas.coordinators.groups.records import GroupMetadataValue, GroupRecord, Record
from barnabas.coordinators.groups.replies import join_refused, sync_refused
from barnabas.coordinators.groups.room import MEMBER_BYTES, names_weight
from barnabas.coordinators.groups.roster import Roster
from barnabas.coordinators.groups.states import State, check_move
from barnabas.coordinators.groups.story import Cause, Kind, Ledger, Story
from barnabas.coordinators.groups.subscription import CONSUMER
from barnabas.coordinators.runtime import Answer, Now, Outcome
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code
from barnabas.wire.codec import Message
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.sync_group import SyncGroupResponse

GENERATION_MAX = 0x7FFF_FFFF
REASON_CHARS_MAX = 255


class Pending(dict[str, Timer[TimerKey]]):
    """Ids given out that nobody has joined with yet, and what long ones weigh."""

    bytes = 0

    def __setitem__(self, id_: str, timer: Timer[TimerKey]) -> None:
        if id_ not in self:
            self.bytes += names_weight(id_)
        super().__setitem__(id_, timer)

    def take(self, id_: str) -> Timer[TimerKey] | None:
        timer = super().pop(id_, None)
        if timer is not None:
            self.bytes -= names_weight(id_)
        return timer

    def clear(self) -> None:
        super().clear()
        self.bytes = 0


class Rebalance:
    """What a group is, and how it gets from one generation to the next."""

    type = "classic"

    def __init__(self, id_: str, limits: Limits, timers: Timers[TimerKey], story: Story) -> None:
        self.id = id_
        self.limits = limits
        self.story = story
        self.state = State.EMPTY
        self.generation = 0
        self.protocol: str | None = None
        self.since_wall_ms = -1  # when it entered its state; -1 when the log does not say
        self.roster = Roster()
        self.topics: frozenset[str] | None = None
        self.pending = Pending()  # ids given out, not yet joined with
        self._unsynced: dict[str, None] = {}  # members of this generation that have not synced
        # Of the first rebalance after Empty: the delay under way, what may still be added to it.
        self._initial: tuple[int, int] | None = None
        self._newcomers = False
        self._timers = timers
        self._join_timer: Timer[TimerKey] = Timer(TimerKey("join", id_))
        self._sync_timer: Timer[TimerKey] = Timer(TimerKey("sync", id_))
        self._records: list[Record] = []
        self._answers: list[Answer] = []
        self._weight = 0  # what it takes up of the room for all groups

    @classmethod
    def kept(
        cls,
        id_: str,
        value: GroupMetadataValue,
        limits: Limits,
        timers: Timers[TimerKey],
        ledger: Ledger | None = None,
    ) -> Self:
        """As the log remembers it: Stable, or Empty."""
        assigned = {member.member_id: member.assignment for member in value.members}
        story = Story(assigned, group=id_, ledger=ledger)
        group = cls(id_, limits, timers, story)
        group.generation = value.generation
        group.protocol = value.protocol
        group.since_wall_ms = value.current_state_timestamp
        group.roster.protocol_type = value.protocol_type or None
        for kept in value.members:
            member = Member.kept(kept, value.protocol, id_)
            group.roster.add(member, value.protocol_type or None)
        group.roster.leader = value.leader
        if value.leader not in group.roster.members:
            group.roster.leader = next(iter(group.roster.members), None)
        if value.members:
            group.state = State.STABLE
        group.topics = group.roster.topics(value.protocol)
        return group

    def loaded(self, now: Now) -> None:
        """Sessions count from now; a group that is too large for a new limit starts over."""
        self._weigh()
        for member in self.roster.members.values():
            self._heard(member, now)
        if len(self.roster) > self.limits.members_max:
            self._happened(Cause(Kind.OVER_CAPACITY), now)
            self._prepare_rebalance(now)

    def take(self, *, at_once: bool = False) -> Outcome[Record]:
        outcome = Outcome(tuple(self._records), tuple(self._answers), self.id, at_once)
        self._records.clear()
        self._answers.clear()
        self._weigh()
        return outcome

    def _weigh(self) -> None:
        weight = self.roster.bytes + self.pending.bytes
        there = len(self.roster) + len(self.pending)
        if there:
            weight += MEMBER_BYTES * there + names_weight(self.id)
        self.limits.room.used += weight - self._weight
        self._weight = weight

    def replayed(self, value: GroupMetadataValue) -> None:
        """The log has this generation: from now on it is in force."""
        if self.state is State.COMPLETING and value.generation == self.generation:
            for kept in value.members:
                self.roster.members[kept.member_id].assignment = kept.assignment
            self._move(State.STABLE)

    def end(self, code: Code) -> None:
        """Deleted, led elsewhere, or about to be read back from the log."""
        for member in tuple(self.roster.members.values()):
            self._drop(member, code)
        for timer in self.pending.values():
            timer.stop()
        self.pending.clear()
        self._join_timer.stop()
        self._sync_timer.stop()
        self._move(State.DEAD)
        self._weigh()

    def subscribes_to(self, topic: str) -> bool:
        """A consumer whose subscription cannot be read may want any topic."""
        if self.topics is None:
            return self.roster.protocol_type == CONSUMER
        return topic in self.topics

    @property
    def protocol_type(self) -> str:
        return self.roster.protocol_type or ""

    @property
    def size(self) -> int:
        return len(self.roster)

    @property
    def is_idle(self) -> bool:
        """Nobody is here, and nobody is on the way."""
        return self.state is State.EMPTY and not self.pending

    # Phases

    def rebalance(self, now: Now) -> None:
        """Somebody came, went or changed: start over, or see whether that was the last one."""
        if self.state is State.PREPARING:
            if self._initial is None and self._all_joined():
                self._complete_join(now)
        elif self.state is not State.EMPTY or self.roster.members:
            self._prepare_rebalance(now)

    def _prepare_rebalance(self, now: Now) -> None:
        if self.state is State.COMPLETING:
            for member in self.roster.members.values():
                member.assignment = b""
                self._answer_sync(member, Code.REBALANCE_IN_PROGRESS, now)
            self.story.interrupted(now)
        self._unsynced.clear()
        self._sync_timer.stop()
        first = self.state is State.EMPTY
        self._move(State.PREPARING, now)
        if first:
            delay = self.limits.initial_rebalance_delay_ms
            self._initial = (delay, max(0, self.roster.rebalance_timeout_ms() - delay))
            self._newcomers = False
            self._timers.set(self._join_timer, now.ms + delay)
        elif self._all_joined():
            self._complete_join(now)
        else:
            self._timers.set(self._join_timer, now.ms + self.roster.rebalance_timeout_ms())

    def _all_joined(self) -> bool:
        return not self.pending and self.roster.joining == len(self.roster)

    def _complete_join(self, now: Now) -> None:
        """Whoever is here is the next generation."""
        self._join_timer.stop()
        allowed = self.roster.rebalance_timeout_ms()
        for member in self.roster.missing():
            if member.instance_id is None:
                self._late(Kind.LATE_JOIN, member, allowed, member.rebalance_timeout_ms, now)
                self._drop(member, Code.UNKNOWN_MEMBER_ID)
        if self.roster.members and not self.roster.elect():
            # Only static members are left, all away: their sessions decide.
            self._timers.set(self._join_timer, now.ms + self.roster.rebalance_timeout_ms())
            return
        self._initial = None
        self.generation = self.generation % GENERATION_MAX + 1
        self.protocol = self.roster.vote() if self.roster.members else None
        self.topics = self.roster.topics(self.protocol)
        roster = self.roster
        self.story.joined(self.generation, len(roster), self.protocol, roster.leader, now)
        if not roster.members:
            self._move(State.EMPTY, now)
            self._keep({})
            return
        self._move(State.COMPLETING, now)
        for member in roster.members.values():
            caller = roster.end_wait(member)
            if caller is not None:
                leads = roster.leader == member.id
                self._answer(caller, self._joined(member, with_members=leads))
            member.is_new = False
            self._heard(member, now)
            self._unsynced[member.id] = None
        self._timers.set(self._sync_timer, now.ms + roster.rebalance_timeout_ms())

    def _assign(self, assignments: Mapping[str, bytes], now: Now) -> None:
        """The leader has spoken: into the log, and then to everyone who has asked."""
        self._keep(assignments)
        self.story.assigned(assignments, now)
        for member in self.roster.members.values():
            if member.syncing is not None:
                self._answer(member.syncing, self._synced(assignments[member.id]))
                member.syncing = None
                self._heard(member, now)

    # Members

    def _heard(self, member: Member, now: Now) -> None:
        member.heard_ms = now.ms
        self._timers.set(member.session, now.ms + member.session_timeout_ms)

    def _drop(self, member: Member, code: Code) -> None:
        """Out of the group; if it waits, it hears why."""
        self._answer_waits(member, code)
        self._unsynced.pop(member.id, None)
        member.session.stop()
        self.roster.remove(member)

    def _forget(self, member_id: str) -> None:
        """A member turned away keeps nothing, not even the id it was promised."""
        pending = self.pending.take(member_id)
        if pending is not None:
            pending.stop()
        elif member_id in self.roster.members:
            self._drop(self.roster.members[member_id], Code.UNKNOWN_MEMBER_ID)

    # The log, answers, the story

    def _keep(self, assignments: Mapping[str, bytes]) -> None:
        roster = self.roster
        value = GroupMetadataValue(
            protocol_type=roster.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=roster.leader,
            current_state_timestamp=self.since_wall_ms,
            members=[m.keep(self.protocol, assignments[m.id]) for m in roster.members.values()],
        )
        self._records.append(GroupRecord(self.id, value))

    def _move(self, state: State, now: Now | None = None) -> None:
        check_move(self.id, self.state, state)
        self.state = state
        if now is not None:
            self.since_wall_ms = now.wall_ms

    def _answer(self, caller: Caller, response: Message) -> None:
        self._answers.append(Answer(caller.token, response))

    def _answer_waits(self, member: Member, code: Code, member_id: str = "") -> None:
        waiting = self.roster.end_wait(member)
        if waiting is not None:
            self._answer(waiting, join_refused(code, member_id))
        if member.syncing is not None:
            self._answer(member.syncing, sync_refused(code))
            member.syncing = None

    def _answer_sync(self, member: Member, code: Code, now: Now) -> None:
        if member.syncing is not None:
            self._answer(member.syncing, sync_refused(code))
            member.syncing = None
            self._heard(member, now)

    def _joined(
        self,
        member: Member,
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
                for other in self.roster.members.values()
            ]
        return JoinGroupResponse(
            error_code=Code.NONE,
            generation_id=self.generation,
            protocol_type=self.roster.protocol_type,
            protocol_name=self.protocol or "",
            leader=leader or self.roster.leader or "",
            skip_assignment=skip_assignment,
            member_id=member.id,
            members=members,
        )

    def _synced(self, assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(
            error_code=Code.NONE,
            protocol_type=self.roster.protocol_type,
            protocol_name=self.protocol,
            assignment=assignment,
        )

    def _happened(self, cause: Cause, now: Now) -> None:
        self.story.happened(cause, now)

    def _late(self, kind: Kind, member: Member, waited: int, allowed: int, now: Now) -> None:
        cause = Cause(
            kind,
            member.id,
            member.client_id,
            member.client_host,
            waited_ms=waited,
            allowed_ms=allowed,
            instance=member.instance_id or "",
            connection=member.connection,
        )
        self.story.happened(cause, now)

    def _fenced(self, member_id: str, instance_id: str | None, now: Now) -> None:
        """Whoever was replaced is still there: two programs share one instance id."""
        twin = self.roster.by_instance(instance_id)
        if twin is not None:
            cause = Cause(Kind.FENCED, member_id, twin.client_id, "", instance=instance_id or "")
            self.story.noted(cause, now)

    def _cause(
        self,
        kind: Kind,
        member: Member,
        reason: str | None,
        added: tuple[str, ...] = (),
        dropped: tuple[str, ...] = (),
    ) -> Cause:
        return Cause(
            kind,
            member.id,
            member.client_id,
            member.client_host,
            (reason or "")[:REASON_CHARS_MAX],
            allowed_ms=member.rebalance_timeout_ms,
            topics_added=added,
            topics_dropped=dropped,
            instance=member.instance_id or "",
            connection=member.connection,
        )
