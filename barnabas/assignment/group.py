"""What every assignor is told about a group, and what it answers.

In: the members, in the order in which they joined; the topics by name.
Out: for each member its partitions, sorted by topic and number.
Always: topics that do not exist and partitions beyond a topic's count play no part.
Not here: reading these values from protocol messages (the callers know the wire).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from barnabas.assignment.java_order import text_key
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class GroupSubscriber:
    """One member, as its subscription describes it.

    `owned` is what it holds now; for the coordinator's own assignors, its target so far.
    `user_data` is what its assignor wrote into the subscription (see user_data.py).
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class AssignableTopic:
    """A topic as it is now. `racks[n]`: where the replicas of partition n are, as far as known."""

    partitions: int
    topic_id: UUID = NO_TOPIC_ID
    racks: tuple[frozenset[str], ...] = ()

    def racks_of(self, partition: int) -> frozenset[str]:
        return self.racks[partition] if partition < len(self.racks) else frozenset()


Topics: TypeAlias = Mapping[str, AssignableTopic]
Assignment: TypeAlias = dict[str, list[TopicPartition]]
Assignor: TypeAlias = Callable[[Sequence[GroupSubscriber], Topics], Assignment]


def subscribers_of(
    members: Iterable[GroupSubscriber], topics: Topics
) -> dict[str, list[GroupSubscriber]]:
    """The subscribers of each topic that has any and exists, in the order of `members`."""
    found: dict[str, list[GroupSubscriber]] = {}
    for member in members:
        for name in dict.fromkeys(member.topics):
            if (topic := topics.get(name)) is not None and topic.partitions > 0:
                found.setdefault(name, []).append(member)
    return found


def alike(members: Sequence[GroupSubscriber]) -> bool:
    """Whether all subscribe to the same topics."""
    return len({frozenset(member.topics) for member in members}) <= 1


def exists(partition: TopicPartition, topics: Topics) -> bool:
    topic = topics.get(partition.topic)
    return topic is not None and 0 <= partition.partition < topic.partitions


def static_first(members: Iterable[GroupSubscriber]) -> list[GroupSubscriber]:
    """By instance id, then those without one by member id.

    A member id changes with every restart, an instance id does not: so a restarted static member
    comes to stand where it stood, and gets what it had.
    """

    def place(member: GroupSubscriber) -> tuple[bool, bytes]:
        if member.instance_id is not None:
            return False, text_key(member.instance_id)
        return True, text_key(member.member_id)

    return sorted(members, key=place)
