"""Who is there in a group of the new protocol: when each was last heard, and what it must do when.

In: members that speak, deadlines. Out: members that must go, chapters of the story.
Always: a member that is silent for its session, or holds on to what it must give up for longer
than its rebalance timeout, goes.
Not here: what members say (consumer.py).
"""

from dataclasses import replace
from typing import NamedTuple

from barnabas.coordinators.groups.consumer_member import (
    ConsumerMember,
    Standing,
)
from barnabas.coordinators.groups.consumer_state import ConsumerState
from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.member import Caller, TimerKey
from barnabas.coordinators.groups.replies import consumer_refused
from barnabas.coordinators.groups.states import ConsumerStage
from barnabas.coordinators.groups.story import Cause, Kind, Story, difference
from barnabas.coordinators.groups.target import partitions_of
from barnabas.coordinators.groups.topics import Topics
from barnabas.coordinators.groups.turn import Turn, wait_ms
from barnabas.coordinators.runtime import Answer, Now
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)

SESSION, REVOKE, JOIN, SYNC, TARGET = "session", "revoke", "join", "sync", "target"


class Waiting(NamedTuple):
    """The first heartbeat of a member of a new group: answered when there are targets."""

    request: ConsumerGroupHeartbeatRequest
    caller: Caller


class Seat:
    """The timers of one member, and when it was last heard."""

    __slots__ = ("connection", "heard_ms", "session", "timers")

    def __init__(self, group: str, member: str) -> None:
        self.heard_ms = 0
        self.connection = ""
        self.session: Timer[TimerKey] = Timer(TimerKey(SESSION, group, member))
        self.timers: dict[str, Timer[TimerKey]] = {}  # of other kinds, as they are needed

    def leave(self) -> None:
        self.session.stop()
        for timer in self.timers.values():
            timer.stop()


class Attendance:
    """One group. `kept` is what the log says of it."""

    type = "consumer"
    protocol_type = "consumer"

    def __init__(
        self,
        kept: ConsumerState,
        limits: Limits,
        timers: Timers[TimerKey],
        topics: Topics,
        story: Story,
    ) -> None:
        self.id = kept.id
        self.kept = kept
        self.limits = limits
        self.story = story
        self.stale = True  # topics may have changed since its epoch
        self._topics = topics
        self._timers = timers
        self._seats: dict[str, Seat] = {}
        self._unsettled: dict[str, None] = {}
        self._gathering: tuple[int, int] | None = None  # since when, and the last to come
        self._waiting: dict[str, Waiting] = {}  # by member
        self._released: list[Answer] = []  # to those that waited in vain
        self._contested: dict[str, Cause] = {}  # by member: who else has its instance id

    # To look at

    @property
    def state(self) -> ConsumerStage:
        return self.kept.stage

    @property
    def size(self) -> int:
        return len(self.kept.members)

    @property
    def generation(self) -> int:
        return self.kept.epoch

    def silent_ms(self, member_id: str, now: Now) -> int:
        seat = self._seats.get(member_id)
        return 0 if seat is None else now.ms - seat.heard_ms

    @property
    def is_idle(self) -> bool:
        return not self.kept.members

    @property
    def topics(self) -> frozenset[str]:
        return self.kept.subscribed()

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.kept.by_topic or any(
            topic in matched for matched in self.kept.regexes.values()
        )

    # Coming and going

    def loaded(self, now: Now) -> None:
        """Sessions count from now."""
        for member in self.kept.members.values():
            self._heard(member, now)
            self._watch_revocation(member, now)

    def end(self, code: Code) -> None:
        for seat in self._seats.values():
            seat.leave()
        self._seats.clear()
        for member_id in tuple(self._waiting):
            self._release(member_id, code)

    def take_released(self) -> tuple[Answer, ...]:
        """Answers to members that waited for targets and get none."""
        released, self._released = tuple(self._released), []
        return released

    def _release(self, member_id: str, code: Code) -> None:
        waiting = self._waiting.pop(member_id, None)
        if waiting is not None:
            refused = consumer_refused(code, f"group {self.id!r} has no assignment for the member")
            self._released.append(Answer(waiting.caller.token, refused))

    # Deadlines

    def due(self, kind: str, member_id: str, now: Now) -> ConsumerMember | None:
        """The member that must go, if that is so."""
        member = self.kept.members.get(member_id)
        seat = self._seats.get(member_id)
        if member is None or seat is None or kind == TARGET:
            return None
        if kind == REVOKE and member.standing is not Standing.UNREVOKED:
            return None
        allowed = max(0, member.rebalance_timeout_ms)
        waited = allowed
        late = {REVOKE: Kind.LATE_REVOKE, JOIN: Kind.LATE_JOIN, SYNC: Kind.LATE_SYNC}.get(kind)
        if late is None:
            late = Kind.LATE_HEARTBEAT
            allowed, waited = self.session_ms(member), now.ms - seat.heard_ms
        cause = replace(self.cause(late, member), waited_ms=waited, allowed_ms=allowed)
        self.story.happened(cause, now)
        return member

    # A fleet that starts together

    def _begin_gathering(self, now: Now) -> bool:
        """Is this the first member of a group that had better wait for more?"""
        lull_ms = min(self.limits.consumer_lull_ms, self.limits.consumer_assignment_interval_ms)
        if self.kept.members or not lull_ms:
            return False
        self._gathering = (now.ms, now.ms)
        return True

    def _wait_ms(self, now: Now) -> int:
        """How long until targets may be made: for a lull, or since the last ones."""
        if self._gathering is None:
            return wait_ms(self.kept, self.limits, now)
        began_ms, last_ms = self._gathering
        end_ms = min(
            last_ms + self.limits.consumer_lull_ms,
            began_ms + self.limits.consumer_assignment_interval_ms,
        )
        return max(0, end_ms - now.ms)

    # Timers

    def session_ms(self, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.limits.consumer_session_timeout_ms

    def _heard(self, member: ConsumerMember, now: Now) -> None:
        seat = self._seats.get(member.id)
        if seat is None:
            seat = self._seats[member.id] = Seat(self.id, member.id)
        seat.heard_ms = now.ms
        self._timers.set(seat.session, now.ms + self.session_ms(member))

    def _watch_revocation(self, member: ConsumerMember, now: Now) -> None:
        """A member of the classic protocol is watched by its join instead."""
        if member.standing is Standing.UNREVOKED and member.classic is None:
            self._start(REVOKE, member.id, now.ms + max(0, member.rebalance_timeout_ms))
        else:
            self._stop(REVOKE, member.id)

    def _start(self, kind: str, member_id: str, at: int) -> None:
        timers = self._seats[member_id].timers
        timer = timers.get(kind)
        if timer is None:
            timer = timers[kind] = Timer(TimerKey(kind, self.id, member_id))
        self._timers.set(timer, at)

    def _stop(self, kind: str, member_id: str) -> None:
        timer = self._seats[member_id].timers.get(kind)
        if timer is not None:
            timer.stop()

    def _runs(self, kind: str, member_id: str) -> bool:
        timer = self._seats[member_id].timers.get(kind)
        return timer is not None and timer.at is not None

    def _unseat(self, member_id: str) -> None:
        self._release(member_id, Code.UNKNOWN_MEMBER_ID)
        self._contested.pop(member_id, None)
        seat = self._seats.pop(member_id, None)
        if seat is not None:
            seat.leave()

    # The story

    def left(self, member: ConsumerMember, reason: str | None, now: Now) -> None:
        self.story.happened(self.cause(Kind.LEFT, member, reason or ""), now)

    def emptied(self, now: Now) -> None:
        """The last one has gone: there is nobody to make targets for."""
        self.story.joined(self.kept.epoch + 1, 0, None, None, now)

    def _contest(
        self, request: ConsumerGroupHeartbeatRequest, code: Code, caller: Caller, now: Now
    ) -> None:
        """A member that died may come back under its instance id before its session ends: only
        when the holder speaks again are there two of them."""
        holder = self.kept.by_instance(request.instance_id)
        if holder is None or code not in (
            Code.UNRELEASED_INSTANCE_ID,
            Code.FENCED_INSTANCE_ID,
        ):
            return
        twin = Cause(
            Kind.FENCED,
            request.member_id,
            caller.client_id,
            caller.client_host,
            instance=request.instance_id or "",
        )
        if code is Code.FENCED_INSTANCE_ID:
            self.story.noted(twin, now)
        else:
            self._contested[holder.id] = twin

    def _note_twin(self, member_id: str, now: Now) -> None:
        twin = self._contested.pop(member_id, None)
        if twin is not None:
            self.story.noted(twin, now)

    def cause(
        self,
        kind: Kind,
        member: ConsumerMember,
        reason: str = "",
        topics: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    ) -> Cause:
        seat = self._seats.get(member.id)
        return Cause(
            kind,
            member.id,
            member.client_id,
            member.client_host,
            reason[:255],
            allowed_ms=max(0, member.rebalance_timeout_ms),
            topics_added=topics[0],
            topics_dropped=topics[1],
            instance=member.instance_id or "",
            connection="" if seat is None else seat.connection,
        )

    def _tell(self, turn: Turn, now: Now) -> None:
        member, story = turn.member, self.story
        if turn.bumped:
            topics = difference(turn.began.topics, member.topics)
            if turn.is_new:
                story.happened(self.cause(Kind.JOINED, member), now)
            elif turn.resubscribed:
                story.happened(self.cause(Kind.RESUBSCRIBED, member, topics=topics), now)
            else:
                story.happened(Cause(Kind.PARTITIONS_CHANGED), now)
        elif turn.replaced is not None:
            story.noted(self.cause(Kind.REPLACED, member), now)
        if turn.targets is not None:
            self._unsettled = dict.fromkeys(turn.targets)
            story.joined(turn.epoch, len(turn.targets), turn.assignor, None, now)
        if self._unsettled and turn.epoch == turn.target_epoch:
            self._settle(turn, now)

    def _settle(self, turn: Turn, now: Now) -> None:
        member = turn.member
        if not member.has_reached(turn.target_epoch) or member.id not in self._unsettled:
            return
        del self._unsettled[member.id]
        if turn.began.standing is not Standing.UNRELEASED:  # else it is others who were late
            self.story.arrived(member.id, member.client_id, member.client_host, now)
        if not self._unsettled:
            targets = self.kept.targets if turn.targets is None else turn.targets
            shares = {
                member_id: tuple(partitions_of(target, self._topics))
                for member_id, target in targets.items()
            }
            self.story.assigned(shares, now)
