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
from barnabas.coordinators.groups.member_sessions import MemberSessions
from barnabas.coordinators.groups.replies import consumer_refused
from barnabas.coordinators.groups.timer_keys import REVOKE, TimerKey
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Now, ShardReply
from barnabas.coordinators.timers import Timers
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class FirstHeartbeat(NamedTuple):
    """The first heartbeat of a member of a new group: it waits for a target assignment."""

    request: ConsumerGroupHeartbeatRequest
    caller: Caller


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
        self.sessions = MemberSessions(stored.id, timers)
        self.behind: dict[str, None] = {}  # members that have not reached the target
        self.gathering: tuple[int, int] | None = None  # since when, and the last member's time
        self.first_heartbeats: dict[str, FirstHeartbeat] = {}  # by member
        self.contested: dict[str, RebalanceCause] = {}  # by member: who else has its instance id
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

    # Start and end

    def loaded(self, now: Now) -> None:
        """Sessions start now."""
        for member in self.stored.members.values():
            self.heard(member, now)
            self.watch_revocation(member, now)

    def end(self, code: Code) -> None:
        """It was deleted, is coordinated elsewhere, or is about to be read back from the log."""
        self.sessions.end_all()
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
        classic = member.classic  # as `session_ms`, without a call: every heartbeat comes here
        session_ms = (
            self.limits.consumer_session_timeout_ms
            if classic is None
            else classic.session_timeout_ms
        )
        self.sessions.heard(member.id, session_ms, now)

    def watch_revocation(self, member: ConsumerMember, now: Now) -> None:
        """Members of the classic protocol have a deadline for JoinGroup instead."""
        if member.state is MemberState.UNREVOKED and member.classic is None:
            deadline = now.ms + max(0, member.rebalance_timeout_ms)
            self.sessions.start_timer(REVOKE, member.id, deadline)
        else:
            self.sessions.stop_timer(REVOKE, member.id)

    def drop_member(self, member_id: str) -> None:
        """The member is out: stop its timers, and refuse its first heartbeat if it waits."""
        self.refuse_waiting(member_id, Code.UNKNOWN_MEMBER_ID)
        self.contested.pop(member_id, None)
        self.sessions.end(member_id)
