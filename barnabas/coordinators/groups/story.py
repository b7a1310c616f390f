"""Why each generation of a group came about, kept so that a person can read it.

In: what happened, in the words of the group's verbs. Out: chapters, one per generation, and notes
of what happened without a new generation.
Always: bounded: the last chapters, the first causes of each, assignments up to a size.
Not here: what all groups together may keep (chronicle.py), words (words.py), judging it (the
client's diagnosis).

A group of the classic protocol goes from `happened` through `arrived` and `joined` to `assigned`;
one of the new protocol calls `joined` as soon as it has a new epoch, `arrived` for each member
that has caught up with it, and `assigned` when all have.
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

CHAPTERS_MAX = 32
CAUSES_MAX = 128
NOTES_MAX = 32
TOPICS_MAX = 20
LEAVERS_MAX = 64
ASSIGNMENT_BYTES_MAX = 32 * 1024  # of one generation; a larger one has no moves to show
PARTITION_BYTES = 64  # of a partition that is kept as such, about

Share = bytes | tuple[TopicPartition, ...]
"""What a member was given: as it was sent, or as partitions."""


class Kind(Enum):
    """What can set a rebalance off, or happen within one."""

    JOINED = "joined"
    RETURNED = "came back on the connection on which it had left"
    LEFT = "left"
    LATE_HEARTBEAT = "no heartbeat within its session timeout"
    LATE_POLL = "no poll within max.poll.interval.ms"
    LATE_JOIN = "did not join again within its rebalance timeout"
    LATE_SYNC = "did not ask for its assignment within its rebalance timeout"
    LATE_REVOKE = "did not give up partitions within its rebalance timeout"
    RESUBSCRIBED = "changed its subscription or protocols"
    METADATA_CHANGED = "asked for a new assignment, with other metadata than before"
    LEADER_REJOINED = "is the group leader and asked for a new assignment"
    REPLACED = "came back under its instance id"
    FENCED = "sent a request under a group.instance.id that another member has taken over"
    PARTITIONS_CHANGED = "topics that the group reads were created, deleted or got more partitions"
    CONVERTED = "the group changed from one protocol to the other"
    NOT_STORED = "the broker could not write the assignment to its log"
    OVER_CAPACITY = "the group has more members than group.max.size"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that happened. `waited_ms` of `allowed_ms`: how late it was. Of one that came or
    left, how long it was away, and how long it may go without a poll. `connection` is the address
    the member spoke from, port and all."""

    kind: Kind
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
class Move:
    """A partition that has another owner than in the generation before."""

    partition: TopicPartition
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Arrival:
    """The member that came last, and how long after the first cause."""

    member: str
    client: str
    host: str
    after_ms: int


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth telling that began no generation; `times` in a row, the last at `at`."""

    at: Now
    cause: Cause
    times: int = 1


@dataclass(slots=True)
class Chapter:
    """One generation, from the first cause to the assignment. A duration of -1 is not over."""

    began: Now
    causes: list[Cause] = field(default_factory=list)
    more_causes: int = 0
    generation: int = -1
    members: int = 0
    protocol: str | None = None
    leader: str | None = None
    join_ms: int = -1
    sync_ms: int = -1
    last: Arrival | None = None
    # By member: as it was before, as it is now. None when it was too large to keep.
    before: Mapping[str, Share] | None = None
    after: Mapping[str, Share] | None = None

    def moves(self) -> list[Move] | None:
        """What moved from whom to whom; None when that is not known."""
        if self.before is None or self.after is None:
            return None
        before, after = owners(self.before), owners(self.after)
        if before is None or after is None:
            return None
        return [
            Move(partition, before.get(partition), after.get(partition))
            for partition in sorted(before.keys() | after.keys())
            if before.get(partition) != after.get(partition)
        ]


class Ledger(Protocol):
    """Who wants to know of every chapter that closes."""

    def closed(self, story: "Story", chapter: Chapter) -> None: ...


class Story:
    """The last chapters of one group."""

    __slots__ = ("_assigned", "_leavers", "_ledger", "_open", "chapters", "group", "notes")

    def __init__(
        self,
        assigned: Mapping[str, Share] | None = None,
        *,
        group: str = "",
        ledger: Ledger | None = None,
    ) -> None:
        self.group = group
        self.chapters: deque[Chapter] = deque(maxlen=CHAPTERS_MAX)
        self.notes: deque[Note] = deque(maxlen=NOTES_MAX)
        self._ledger = ledger
        self._open: Chapter | None = None
        self._assigned: Mapping[str, Share] | None = assigned
        self._leavers: dict[str, int] = {}  # by connection: when its member left

    @property
    def current(self) -> Chapter | None:
        """The rebalance under way, or the last one."""
        return self._open or (self.chapters[-1] if self.chapters else None)

    @property
    def under_way(self) -> Chapter | None:
        return self._open

    def happened(self, cause: Cause, now: Now) -> None:
        """Into the join phase under way, or the first cause of the next."""
        self.interrupted(now)
        if self._open is None:
            self._open = Chapter(began=now)
        if cause.connection:
            cause = self._seen_before(cause, now)
        if len(self._open.causes) < CAUSES_MAX:
            self._open.causes.append(cause)
        else:
            self._open.more_causes += 1

    def noted(self, cause: Cause, now: Now) -> None:
        """Worth telling, but no reason for a new generation."""
        times = 1
        if self.notes:
            last = self.notes[-1]
            if (last.cause.kind, last.cause.member) == (cause.kind, cause.member):
                times = self.notes.pop().times + 1
        self.notes.append(Note(now, cause, times))

    def arrived(self, member: str, client: str, host: str, now: Now) -> None:
        """A member is where the generation needs it; whoever is last held up all others."""
        chapter = self._open
        if chapter is not None:
            chapter.last = Arrival(member, client, host, now.ms - chapter.began.ms)

    def joined(
        self, generation: int, members: int, protocol: str | None, leader: str | None, now: Now
    ) -> None:
        """The join phase is over."""
        chapter = self._open
        if chapter is None:
            chapter = self._open = Chapter(began=now)
        chapter.generation = generation
        chapter.members = members
        chapter.protocol = protocol
        chapter.leader = leader
        chapter.join_ms = now.ms - chapter.began.ms
        if not members:
            self.assigned({}, now)

    def interrupted(self, now: Now) -> None:
        """A generation that never got its assignment: its causes stay, its chapter closes."""
        chapter = self._open
        if chapter is not None and chapter.generation >= 0:
            self._close(chapter)
            self._open = Chapter(began=now)

    def assigned(self, assignments: Mapping[str, Share], now: Now) -> None:
        """The sync phase is over, and with it the chapter."""
        chapter = self._open
        if chapter is None:
            return
        chapter.sync_ms = max(0, now.ms - chapter.began.ms - max(0, chapter.join_ms))
        fits = share_bytes(assignments) <= ASSIGNMENT_BYTES_MAX
        chapter.before = self._assigned
        chapter.after = self._assigned = assignments if fits else None
        self._open = None
        self._close(chapter)

    def forget(self, chapter: Chapter) -> None:
        """No room for it among the stories of all groups."""
        if self.chapters and self.chapters[0] is chapter:
            self.chapters.popleft()

    def _close(self, chapter: Chapter) -> None:
        self.chapters.append(chapter)
        if self._ledger is not None:
            self._ledger.closed(self, chapter)

    def _seen_before(self, cause: Cause, now: Now) -> Cause:
        """A program that ends closes its connections; one that leaves and comes back on the same
        connection has lived on: it was too busy to poll, or it unsubscribed for a while."""
        leavers = self._leavers
        if cause.kind in (Kind.LEFT, Kind.LATE_POLL):
            leavers[cause.connection] = now.ms
            if len(leavers) > LEAVERS_MAX:
                del leavers[next(iter(leavers))]
        elif cause.kind is Kind.JOINED and cause.connection in leavers:
            away_ms = now.ms - leavers.pop(cause.connection)
            return replace(cause, kind=Kind.RETURNED, waited_ms=away_ms)
        return cause


def is_late_poll(reason: str | None) -> bool:
    """Some clients say, as they leave, that it is their poll interval that has run out."""
    if reason is None:
        return False
    return "max.poll.interval" in reason or ("poll" in reason and "expired" in reason)


def share_bytes(assignments: Mapping[str, Share]) -> int:
    """About what it takes to keep them."""
    return sum(
        len(share) if isinstance(share, bytes) else PARTITION_BYTES * len(share)
        for share in assignments.values()
    )


def owners(assignments: Mapping[str, Share]) -> dict[TopicPartition, str] | None:
    """Who has which partition; None unless all of them are consumers' assignments."""
    owned: dict[TopicPartition, str] = {}
    for member, share in assignments.items():
        partitions = partitions_of(share) if isinstance(share, bytes) else share
        if partitions is None:
            return None
        owned.update(dict.fromkeys(partitions, member))
    return owned


def difference(
    before: Iterable[str] | None, after: Iterable[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics added and topics dropped, the first of them."""
    old, new = dict.fromkeys(before or ()), dict.fromkeys(after or ())
    return (
        tuple(islice((topic for topic in new if topic not in old), TOPICS_MAX)),
        tuple(islice((topic for topic in old if topic not in new), TOPICS_MAX)),
    )
