"""Reads the subscriptions and assignments that consumers exchange through a classic group.

In: the bytes of a member's metadata or assignment. Out: topics, partitions, or None.
Always: bytes that cannot be read (of Kafka Connect, or broken) are no error: None.
Not here: writing assignments (consumer/target.py).
"""

from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

CONSUMER = "consumer"
VERSION_MAX = 3
_VERSION_SIZE = 2


def topics_of(metadata: bytes) -> tuple[str, ...] | None:
    """The subscribed topics. Every version starts like version 0."""
    if version_of(metadata) < 0:
        return None
    try:
        subscription = ConsumerProtocolSubscription.decode(metadata, 0, _VERSION_SIZE)
    except KafkaError:
        return None
    return tuple(subscription.topics)


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """The whole subscription, in its own version."""
    version = version_of(metadata)
    if version < 0:
        return None
    try:
        return ConsumerProtocolSubscription.decode(
            bytes(metadata), min(version, VERSION_MAX), _VERSION_SIZE
        )
    except KafkaError:
        return None


def partitions_of(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """The assigned partitions; no bytes are no partitions."""
    if not assignment:
        return ()
    if version_of(assignment) < 0:
        return None
    try:
        given = ConsumerProtocolAssignment.decode(assignment, 0, _VERSION_SIZE)
    except KafkaError:
        return None
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in given.assigned_partitions
        for partition in topic.partitions
    )


def version_of(data: bytes) -> int:
    return int.from_bytes(data[:_VERSION_SIZE], signed=True) if len(data) >= _VERSION_SIZE else -1
