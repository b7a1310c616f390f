"""Computes the target of every member: the partitions it is to own when all others have released
theirs.

In: the members with their subscriptions, their targets so far, the topics. Out: new targets.
Always: each partition is in one target at most; equal to Kafka's on equal input (assignment/).
Not here: when (heartbeats.py, gathering.py), how members get there (reconcile.py).
"""

from collections.abc import Iterable, Mapping

from barnabas.assignment import SERVER_ASSIGNORS
from barnabas.assignment.group import AssignableTopic, GroupSubscriber
from barnabas.coordinators.groups.consumer.member import ConsumerMember, Target
from barnabas.coordinators.groups.topics import TopicsPort
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from barnabas.wire.messages.consumer_protocol import TopicPartition as ProtocolPartitions

Subscriptions = Iterable[tuple[ConsumerMember, tuple[str, ...], Target]]
"""Each member with all topics it subscribes to, and its target so far."""


def make_targets(assignor: str, members: Subscriptions, topics: TopicsPort) -> dict[str, Target]:
    found: dict[str, AssignableTopic] = {}
    asked = []
    for member, names, target in members:
        for name in names:
            if name not in found and (topic := topics.find(name)) is not None:
                found[name] = topic
        asked.append(
            GroupSubscriber(
                member.id,
                names,
                member.instance_id,
                member.rack,
                tuple(named_partitions(target, topics)),
            )
        )
    assigned = SERVER_ASSIGNORS[assignor](asked, found)
    return {member_id: _target(partitions, found) for member_id, partitions in assigned.items()}


def named_partitions(target: Target, topics: TopicsPort) -> Iterable[TopicPartition]:
    """Partitions by topic name; deleted topics are left out."""
    for topic_id, partitions in target.items():
        name = topics.name_of(topic_id)
        if name is not None:
            for partition in partitions:
                yield TopicPartition(name, partition)


def as_consumer_protocol(target: Target, topics: TopicsPort, version: int = 1) -> bytes:
    """The target in the form that members of the classic protocol read."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ProtocolPartitions(topic=name, partitions=list(partitions))
            for topic_id, partitions in target.items()
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
    version = max(0, min(version, 3))
    return version.to_bytes(2) + message.encode(version)


def _target(assigned: Iterable[TopicPartition], topics: Mapping[str, AssignableTopic]) -> Target:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in assigned:
        by_topic.setdefault(topic, []).append(partition)
    return {
        topics[name].topic_id: tuple(sorted(partitions)) for name, partitions in by_topic.items()
    }
