"""The state of one consumer group: what the log has, the timers of its members, who waits.

In: changes by the functions of this folder. Out: timers that are set, answers to members that
waited for an assignment and get none.
Always: `stored` is what the log has and changes by replay alone; everything else is lost with the
broker.
Not here: what a heartbeat does (heartbeats.py), when members are removed (membership.py), all
groups together (groups/state.py).
"""

from typing import Literal, NamedTuple

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.consumer.member import ConsumerMember
from barnabas.coordinators.groups.consumer.states import ConsumerGroupState, MemberState
from barnabas.coordinators.groups.consumer.stored import StoredConsumerGroup
from barnabas.coordinators.groups.history.rebalance_history import (
    RebalanceCause,
    RebalanceHistory,
)
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.replies import consumer_refused
from barnabas.coordinators.groups.timer_keys import REVOKE, SESSION, TimerKey
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Now, ShardReply
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class FirstHeartbeat(NamedTuple):
    """The first heartbeat of a member of a new group: it waits for a target assignment."""

    request: ConsumerGroupHeartbeatRequest
    caller: Caller


class MemberTimers:
    """The timers of one member, and when it was last heard."""

    __slots__ = ("connection", "heard_ms", "others", "session")

    def __init__(self, group: str, member: str) -> None:
        self.heard_ms = 0
        self.connection = ""
        self.session: Timer[TimerKey] = Timer(TimerKey(SESSION, group, member))
        self.others: dict[str, Timer[TimerKey]] = {}  # by kind, made when first set

    def stop(self) -> None:
        self.session.stop()
        for timer in self.others.values():
            timer.stop()


class ConsumerGroup:
    """One group. It may have members of the classic protocol too (classic_members.py)."""

    type: Literal["consumer"] = "consumer"
    protocol_type = "consumer"

    def __init__(
        self,
        stored: StoredConsumerGroup,
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
        self.member_timers: dict[str, MemberTimers] = {}
        self.behind: dict[str, None] = {}  # members that have not reached the target
        self.gathering: tuple[int, int] | None = None  # since when, and the last member's time
        self.first_heartbeats: dict[str, FirstHeartbeat] = {}  # by member
        self.contested: dict[str, RebalanceCause] = {}  # by member: who else has its instance id
        self._timers = timers
        self._refused: list[ShardReply] = []  # to members that waited for a target

    # Views

    @property
    def state(self) -> ConsumerGroupState:
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
        return self.stored.subscribed()

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.stored.by_topic or any(
            topic in matched for matched in self.stored.regexes.values()
        )

    def session_ms(self, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.limits.consumer_session_timeout_ms

    def silent_ms(self, member_id: str, now: Now) -> int:
        """The time since the member was last heard."""
        timers = self.member_timers.get(member_id)
        return 0 if timers is None else now.ms - timers.heard_ms

    # Start and end

    def loaded(self, now: Now) -> None:
        """Sessions start now."""
        for member in self.stored.members.values():
            self.heard(member, now)
            self.watch_revocation(member, now)

    def end(self, code: Code) -> None:
        """It was deleted, is coordinated elsewhere, or is about to be read back from the log."""
        for timers in self.member_timers.values():
            timers.stop()
        self.member_timers.clear()
        for member_id in tuple(self.first_heartbeats):
            self.refuse_waiting(member_id, code)

    def refuse_waiting(self, member_id: str, code: Code) -> None:
        """Answer the first heartbeat of a member that waits, if it does."""
        waiting = self.first_heartbeats.pop(member_id, None)
        if waiting is not None:
            refused = consumer_refused(code, f"group {self.id!r} has no assignment for the member")
            self._refused.append(ShardReply(waiting.caller.token, refused))

    def take_refused(self) -> tuple[ShardReply, ...]:
        """The answers of `refuse_waiting` since the last call."""
        refused, self._refused = tuple(self._refused), []
        return refused

    # Timers

    def heard(self, member: ConsumerMember, now: Now) -> None:
        """The member is alive: its session starts again."""
        timers = self.member_timers.get(member.id)
        if timers is None:
            timers = self.member_timers[member.id] = MemberTimers(self.id, member.id)
        timers.heard_ms = now.ms
        classic = member.classic  # as `session_ms`, without a call: every heartbeat comes here
        session_ms = (
            self.limits.consumer_session_timeout_ms
            if classic is None
            else classic.session_timeout_ms
        )
        self._timers.set(timers.session, now.ms + session_ms)

    def watch_revocation(self, member: ConsumerMember, now: Now) -> None:
        """Members of the classic protocol have a deadline for JoinGroup instead."""
        if member.state is MemberState.UNREVOKED and member.classic is None:
            self.start_timer(REVOKE, member.id, now.ms + max(0, member.rebalance_timeout_ms))
        else:
            self.stop_timer(REVOKE, member.id)

    def start_timer(self, kind: str, member_id: str, at: int) -> None:
        timers = self.member_timers[member_id].others
        timer = timers.get(kind)
        if timer is None:
            timer = timers[kind] = Timer(TimerKey(kind, self.id, member_id))
        self._timers.set(timer, at)

    def stop_timer(self, kind: str, member_id: str) -> None:
        timer = self.member_timers[member_id].others.get(kind)
        if timer is not None:
            timer.stop()

    def is_timer_set(self, kind: str, member_id: str) -> bool:
        timer = self.member_timers[member_id].others.get(kind)
        return timer is not None and timer.at is not None

    def drop_member(self, member_id: str) -> None:
        """The member is out: stop its timers, and refuse its first heartbeat if it waits."""
        self.refuse_waiting(member_id, Code.UNKNOWN_MEMBER_ID)
        self.contested.pop(member_id, None)
        timers = self.member_timers.pop(member_id, None)
        if timers is not None:
            timers.stop()
