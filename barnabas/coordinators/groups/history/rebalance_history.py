"""Records why each generation of a group came about, for people to read.

In: what happened, as the functions over the group report it. Out: one entry per generation, and
notes of events that began no generation.
Always: bounded: the last entries, the first causes of each, assignments up to a size.
Not here: the memory of all histories together (statistics.py), sentences (text.py), the diagnosis
of a group (client/groups).

A classic group calls `happened`, `arrived`, `joined`, `assigned`, in this order. A consumer group
calls `joined` when it has a new epoch, `arrived` for each member that has reached it, and
`assigned` when all have.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Protocol

from barnabas.coordinators.groups.subscription import partitions_of
from barnabas.coordinators.runtime import Now
from barnabas.model.ids import TopicPartition

ENTRIES_MAX = 32
CAUSES_MAX = 128
NOTES_MAX = 32
TOPICS_MAX = 20
LEFT_MAX = 64
ASSIGNMENT_BYTES_MAX = 32 * 1024  # of one generation; a larger one shows no moves
PARTITION_BYTES = 64  # about, of a partition in an assignment

MemberAssignment = bytes | tuple[TopicPartition, ...]
"""What a member was assigned: as it was sent, or as partitions."""


class CauseKind(Enum):
    """What can cause a rebalance, or happen within one."""

    JOINED = "joined"
    RETURNED = "came back on the connection on which it had left"
    LEFT = "left"
    LATE_HEARTBEAT = "no heartbeat within its session timeout"
    LATE_POLL = "no poll within max.poll.interval.ms"
    LATE_JOIN = "did not join again within its rebalance timeout"
    LATE_SYNC = "did not ask for its assignment within its rebalance timeout"
    LATE_REVOKE = "did not release partitions within its rebalance timeout"
    RESUBSCRIBED = "changed its subscription or protocols"
    METADATA_CHANGED = "asked for a new assignment, with other metadata than before"
    LEADER_REJOINED = "is the group leader and asked for a new assignment"
    REPLACED = "came back under its instance id"
    FENCED = "sent a request under a group.instance.id that another member has taken over"
    PARTITIONS_CHANGED = "topics that the group reads were created, deleted or got more partitions"
    STATE_BEGUN = "the share state of its partitions has begun"
    STANDBYS_CHANGED = "streams.num.standby.replicas of the group was changed"
    CONVERTED = "the group changed from one protocol to the other"
    NOT_STORED = "the broker could not write the assignment to its log"
    OVER_CAPACITY = "the group has more members than group.max.size"
    REQUESTED = "a test asked for a rebalance"


@dataclass(frozen=True, slots=True)
class RebalanceCause:
    """One event. `waited_ms` of `allowed_ms`: how late the member was. Of a member that joined or
    left: how long it was away, and its rebalance timeout. `connection` is the client's address
    with its port."""

    kind: CauseKind
    member: str = ""
    client: str = ""
    host: str = ""
    reason: str = ""
    waited_ms: int = 0
    allowed_ms: int = 0
    topics_added: tuple[str, ...] = ()
    topics_dropped: tuple[str, ...] = ()
    instance: str = ""
    connection: str = ""


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition that has another owner than in the previous generation."""

    partition: TopicPartition
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class LastArrival:
    """The member that arrived last, and how long after the first cause."""

    member: str
    client: str
    host: str
    after_ms: int


@dataclass(frozen=True, slots=True)
class HistoryNote:
    """An event that began no generation; `times` in a row, the last one at `at`."""

    at: Now
    cause: RebalanceCause
    times: int = 1


@dataclass(slots=True)
class RebalanceEntry:
    """One generation, from its first cause to its assignment. A duration of -1 is not over."""

    began: Now
    causes: list[RebalanceCause] = field(default_factory=list)
    more_causes: int = 0
    generation: int = -1
    members: int = 0
    protocol: str | None = None
    leader: str | None = None
    join_ms: int = -1
    sync_ms: int = -1
    last: LastArrival | None = None
    # By member: the assignment before and after. None when it was too large to keep.
    before: Mapping[str, MemberAssignment] | None = None
    after: Mapping[str, MemberAssignment] | None = None

    def moves(self) -> list[PartitionMove] | None:
        """Which partitions changed their owner; None when that is not known."""
        if self.before is None or self.after is None:
            return None
        before, after = owners(self.before), owners(self.after)
        if before is None or after is None:
            return None
        return [
            PartitionMove(partition, before.get(partition), after.get(partition))
            for partition in sorted(before.keys() | after.keys())
            if before.get(partition) != after.get(partition)
        ]


class RebalanceListener(Protocol):
    """Is called with every entry that is finished."""

    def finished(self, history: "RebalanceHistory", entry: RebalanceEntry) -> None: ...


class RebalanceHistory:
    """The last entries of one group."""

    __slots__ = ("_assigned", "_left_at", "_listener", "_open", "entries", "group", "notes")

    def __init__(
        self,
        assigned: Mapping[str, MemberAssignment] | None = None,
        *,
        group: str = "",
        listener: RebalanceListener | None = None,
    ) -> None:
        self.group = group
        self.entries: deque[RebalanceEntry] = deque(maxlen=ENTRIES_MAX)
        self.notes: deque[HistoryNote] = deque(maxlen=NOTES_MAX)
        self._listener = listener
        self._open: RebalanceEntry | None = None
        self._assigned: Mapping[str, MemberAssignment] | None = assigned
        self._left_at: dict[str, int] = {}  # by connection: when its member left

    @property
    def current(self) -> RebalanceEntry | None:
        """The rebalance under way, or the last one."""
        return self._open or (self.entries[-1] if self.entries else None)

    @property
    def under_way(self) -> RebalanceEntry | None:
        return self._open

    def happened(self, cause: RebalanceCause, now: Now) -> None:
        """Add a cause to the rebalance under way, or begin one."""
        self.interrupted(now)
        if self._open is None:
            self._open = RebalanceEntry(began=now)
        if cause.connection:
            cause = self._recognized(cause, now)
        if len(self._open.causes) < CAUSES_MAX:
            self._open.causes.append(cause)
        else:
            self._open.more_causes += 1

    def noted(self, cause: RebalanceCause, now: Now) -> None:
        """Something happened that begins no generation."""
        times = 1
        if self.notes:
            last = self.notes[-1]
            if (last.cause.kind, last.cause.member) == (cause.kind, cause.member):
                times = self.notes.pop().times + 1
        self.notes.append(HistoryNote(now, cause, times))

    def arrived(self, member: str, client: str, host: str, now: Now) -> None:
        """A member has joined or caught up; the last one held up all others."""
        entry = self._open
        if entry is not None:
            entry.last = LastArrival(member, client, host, now.ms - entry.began.ms)

    def joined(
        self, generation: int, members: int, protocol: str | None, leader: str | None, now: Now
    ) -> None:
        """The join phase is over."""
        entry = self._open
        if entry is None:
            entry = self._open = RebalanceEntry(began=now)
        entry.generation = generation
        entry.members = members
        entry.protocol = protocol
        entry.leader = leader
        entry.join_ms = now.ms - entry.began.ms
        if not members:
            self.assigned({}, now)

    def interrupted(self, now: Now) -> None:
        """Finish the entry of a generation that did not get its assignment."""
        entry = self._open
        if entry is not None and entry.generation >= 0:
            self._finish(entry)
            self._open = RebalanceEntry(began=now)

    def assigned(self, assignments: Mapping[str, MemberAssignment], now: Now) -> None:
        """The sync phase is over, and with it the rebalance."""
        entry = self._open
        if entry is None:
            return
        entry.sync_ms = max(0, now.ms - entry.began.ms - max(0, entry.join_ms))
        fits = assignment_bytes(assignments) <= ASSIGNMENT_BYTES_MAX
        entry.before = self._assigned
        entry.after = self._assigned = assignments if fits else None
        self._open = None
        self._finish(entry)

    def drop(self, entry: RebalanceEntry) -> None:
        """Free the memory of this entry, if it is the oldest."""
        if self.entries and self.entries[0] is entry:
            self.entries.popleft()

    def _finish(self, entry: RebalanceEntry) -> None:
        self.entries.append(entry)
        if self._listener is not None:
            self._listener.finished(self, entry)

    def _recognized(self, cause: RebalanceCause, now: Now) -> RebalanceCause:
        """A program that ends closes its connections. One that comes back on the same connection
        was not restarted: it was too busy to poll, or it unsubscribed for a while."""
        left_at = self._left_at
        if cause.kind in (CauseKind.LEFT, CauseKind.LATE_POLL):
            left_at[cause.connection] = now.ms
            if len(left_at) > LEFT_MAX:
                del left_at[next(iter(left_at))]
        elif cause.kind is CauseKind.JOINED and cause.connection in left_at:
            away_ms = now.ms - left_at.pop(cause.connection)
            return replace(cause, kind=CauseKind.RETURNED, waited_ms=away_ms)
        return cause


def is_late_poll(reason: str | None) -> bool:
    """Some clients give the end of their poll interval as the reason for leaving."""
    if reason is None:
        return False
    return "max.poll.interval" in reason or ("poll" in reason and "expired" in reason)


def assignment_bytes(assignments: Mapping[str, MemberAssignment]) -> int:
    """About the memory for them."""
    return sum(
        len(assignment) if isinstance(assignment, bytes) else PARTITION_BYTES * len(assignment)
        for assignment in assignments.values()
    )


def owners(assignments: Mapping[str, MemberAssignment]) -> dict[TopicPartition, str] | None:
    """The owner of each partition; None if an assignment is not a consumer's."""
    owned: dict[TopicPartition, str] = {}
    for member, assignment in assignments.items():
        partitions = partitions_of(assignment) if isinstance(assignment, bytes) else assignment
        if partitions is None:
            return None
        owned.update(dict.fromkeys(partitions, member))
    return owned


def difference(
    before: Iterable[str] | None, after: Iterable[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics added and topics dropped, up to TOPICS_MAX each."""
    old, new = dict.fromkeys(before or ()), dict.fromkeys(after or ())
    return (
        tuple(islice((topic for topic in new if topic not in old), TOPICS_MAX)),
        tuple(islice((topic for topic in old if topic not in new), TOPICS_MAX)),
    )
