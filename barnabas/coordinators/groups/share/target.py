"""Computes the target of every member of a share group, and when the next one may be computed.

In: the members, the partitions that have state, the topics. Out: new targets.
Always: only partitions that are initialized; a member gets nothing that it does not subscribe to.
Not here: how the partitions are distributed (assignment/simple.py).
"""

from collections.abc import Iterable
from uuid import UUID

from barnabas.assignment.group import GroupSubscriber
from barnabas.assignment.simple import assign_simple
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.share.member import ShareMember, ShareTarget
from barnabas.coordinators.groups.share.state_partitions import (
    InitializedPartitions,
    NamedPartitions,
    SharePartitionId,
)
from barnabas.coordinators.groups.share.stored import StoredShareGroup
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.coordinators.runtime import Now
from barnabas.model.ids import TopicPartition


def make_targets(
    stored: StoredShareGroup,
    members: Iterable[ShareMember],
    states: InitializedPartitions,
    topics: TopicsPort,
) -> dict[str, ShareTarget]:
    """`states`: those of the group, with what is about to be written."""
    ids: dict[str, UUID] = {}
    assignable: dict[str, list[int]] = {}
    asked = []
    for member in members:
        for name in member.topics:
            if name not in assignable:
                topic = topics.find(name)
                assignable[name] = []
                if topic is not None:
                    ids[name] = topic.topic_id
                    initialized = states.of_topic(topic.topic_id)
                    assignable[name] = [n for n in initialized if n < topic.partitions]
        owned = tuple(
            TopicPartition(known, number)
            for topic_id, numbers in stored.targets.get(member.id, {}).items()
            if (known := topics.name_of(topic_id)) is not None
            for number in numbers
        )
        asked.append(GroupSubscriber(member.id, member.topics, rack=member.rack, owned=owned))
    targets: dict[str, ShareTarget] = {}
    for member_id, partitions in assign_simple(asked, assignable).items():
        by_topic: dict[UUID, list[int]] = {}
        for name, number in partitions:
            by_topic.setdefault(ids[name], []).append(number)
        targets[member_id] = {topic_id: tuple(sorted(n)) for topic_id, n in by_topic.items()}
    return targets


def wait_ms(stored: StoredShareGroup, limits: GroupLimits, now: Now) -> int:
    """How long until the next target may be computed. Targets without a partition do not delay the
    first that has some, nor does a clock that was set back."""
    if not stored.targeted_wall_ms or not any(stored.targets.values()):
        return 0
    elapsed_ms = now.wall_ms - stored.targeted_wall_ms
    left_ms = limits.share_assignment_interval_ms - elapsed_ms
    return left_ms if elapsed_ms >= 0 and left_ms > 0 else 0


def without_state(
    names: Iterable[str], states: InitializedPartitions, topics: TopicsPort
) -> dict[UUID, NamedPartitions]:
    """The partitions of these topics that are not initialized."""
    found: dict[UUID, NamedPartitions] = {}
    for name in sorted(names):
        topic = topics.find(name)
        if topic is None:
            continue
        missing = frozenset(range(topic.partitions)) - states.of_topic(topic.topic_id)
        if missing:
            found[topic.topic_id] = NamedPartitions(name, missing)
    return found


def keys_of(partitions: dict[UUID, NamedPartitions]) -> list[SharePartitionId]:
    return [(id_, number) for id_, named in partitions.items() for number in sorted(named[1])]
