"""The state of one share group: what the log has, the timers of its members, what it waits for.

In: changes by the functions of this folder. Out: timers that are set.
Always: `stored` is what the log has and changes by replay alone; everything else is lost with the
broker.
Not here: what a heartbeat does (heartbeats.py), other operations (operations.py).
"""

from typing import Literal

from barnabas.coordinators.groups.history.rebalance_history import RebalanceHistory
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.member_sessions import MemberSessions
from barnabas.coordinators.groups.share.state_partitions import SharePartitionId
from barnabas.coordinators.groups.share.stored import ShareGroupState, StoredShareGroup
from barnabas.coordinators.groups.timer_keys import TimerKey
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Now, ShardReply
from barnabas.coordinators.timers import Timers
from barnabas.model.errors import Code

ASSIGNOR = "simple"


class ShareGroup:
    """One share group."""

    type: Literal["share"] = "share"
    protocol_type = "share"

    def __init__(
        self,
        stored: StoredShareGroup,
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
        self.waits = True  # a subscribed partition may have no state yet
        self.asked: dict[SharePartitionId, int] = {}  # initialization under way: since when
        self.retry_ms = 0  # after a failure: not before
        self.altered = False  # its offsets are being changed: nobody may join
        self.sessions = MemberSessions(stored.id, timers)
        self.behind: dict[str, None] = {}  # members that have not reached the target

    # Views

    @property
    def state(self) -> ShareGroupState:
        return self.stored.state

    @property
    def size(self) -> int:
        return len(self.stored.members)

    @property
    def generation(self) -> int:
        return self.stored.epoch

    @property
    def is_idle(self) -> bool:
        return not self.stored.members and not self.altered

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self.stored.by_topic)

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.stored.by_topic

    # Start and end

    def loaded(self, now: Now) -> None:
        """Sessions start now."""
        for member_id in self.stored.members:
            self.heard(member_id, now)

    def end(self, code: Code) -> None:
        """It was deleted, is coordinated elsewhere, or is about to be read back from the log."""
        self.sessions.end_all()

    def take_refused(self) -> tuple[ShardReply, ...]:
        """No request waits for others."""
        return ()

    # Members

    def heard(self, member_id: str, now: Now) -> None:
        """The member is alive: its session starts again."""
        self.sessions.heard(member_id, self.limits.share_session_timeout_ms, now)

    def drop_member(self, member_id: str) -> None:
        self.behind.pop(member_id, None)
        self.sessions.end(member_id)
