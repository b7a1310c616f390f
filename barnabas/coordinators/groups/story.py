"""Why each generation of a group came about, kept so that a person can read it.

In: what happened, in the words of the group's verbs. Out: chapters, one per generation.
Always: bounded: the last chapters, the first causes of each, assignments up to a size.
Not here: judging it (the command line's `explain`).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from barnabas.coordinators.groups.subscription import partitions_of
from barnabas.coordinators.runtime import Now
from barnabas.model.ids import TopicPartition

CHAPTERS_MAX = 32
CAUSES_MAX = 128
ASSIGNMENT_BYTES_MAX = 1 << 20


class Kind(Enum):
    """What can set a rebalance off, or happen within one."""

    JOINED = "joined"
    LEFT = "left"
    LATE_HEARTBEAT = "no heartbeat within its session timeout"
    LATE_JOIN = "did not join again within its rebalance timeout"
    LATE_SYNC = "did not ask for its assignment within its rebalance timeout"
    RESUBSCRIBED = "changed its subscription or protocols"
    LEADER_REJOINED = "leads, and asked for a new assignment"
    REPLACED = "came back under its instance id"
    NOT_STORED = "the log did not take the assignment"
    OVER_CAPACITY = "the group has more members than group.max.size"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that happened. `waited_ms` of `allowed_ms`: how late it was."""

    kind: Kind
    member: str = ""
    client: str = ""
    host: str = ""
    reason: str = ""
    waited_ms: int = 0
    allowed_ms: int = 0
    topics_added: tuple[str, ...] = ()
    topics_dropped: tuple[str, ...] = ()

    @property
    def late_ms(self) -> int:
        return max(0, self.waited_ms - self.allowed_ms)


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that has another owner than in the generation before."""

    partition: TopicPartition
    before: str | None
    after: str | None


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
    # By member: as it was before, as it is now. None when it was too large to keep.
    before: Mapping[str, bytes] | None = None
    after: Mapping[str, bytes] | None = None

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


class Story:
    """The last chapters of one group."""

    __slots__ = ("_assigned", "_open", "chapters")

    def __init__(self, assigned: Mapping[str, bytes] | None = None) -> None:
        self.chapters: deque[Chapter] = deque(maxlen=CHAPTERS_MAX)
        self._open: Chapter | None = None
        self._assigned: Mapping[str, bytes] | None = assigned

    @property
    def current(self) -> Chapter | None:
        """The rebalance under way, or the last one."""
        return self._open or (self.chapters[-1] if self.chapters else None)

    def happened(self, cause: Cause, now: Now) -> None:
        """Into the join phase under way, or the first cause of the next."""
        self.interrupted(now)
        if self._open is None:
            self._open = Chapter(began=now)
        if len(self._open.causes) < CAUSES_MAX:
            self._open.causes.append(cause)
        else:
            self._open.more_causes += 1

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
            self.chapters.append(chapter)
            self._open = Chapter(began=now)

    def assigned(self, assignments: Mapping[str, bytes], now: Now) -> None:
        """The sync phase is over, and with it the chapter."""
        chapter = self._open
        if chapter is None:
            return
        chapter.sync_ms = max(0, now.ms - chapter.began.ms - max(0, chapter.join_ms))
        fits = sum(map(len, assignments.values())) <= ASSIGNMENT_BYTES_MAX // CHAPTERS_MAX
        chapter.before = self._assigned
        chapter.after = self._assigned = assignments if fits else None
        self.chapters.append(chapter)
        self._open = None


def owners(assignments: Mapping[str, bytes]) -> dict[TopicPartition, str] | None:
    """Who has which partition; None unless all of them are consumers' assignments."""
    owned: dict[TopicPartition, str] = {}
    for member, assignment in assignments.items():
        partitions = partitions_of(assignment)
        if partitions is None:
            return None
        owned.update(dict.fromkeys(partitions, member))
    return owned


def difference(
    before: Iterable[str] | None, after: Iterable[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics added and topics dropped."""
    old, new = dict.fromkeys(before or ()), dict.fromkeys(after or ())
    return (
        tuple(topic for topic in new if topic not in old),
        tuple(topic for topic in old if topic not in new),
    )
