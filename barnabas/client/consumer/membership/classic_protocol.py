"""What classic consumers write to each other inside JoinGroup and SyncGroup.

In: subscriptions and shares, or bytes of other members, perhaps broken. Out: the other of the two.
Always: a member whose subscription cannot be read counts as wanting nothing; it never fails the
group. A share of our own that cannot be read is Corrupt.
"""

from collections.abc import Iterable, Sequence

from barnabas.assignment import GroupSubscriber
from barnabas.model.errors import Corrupt, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages import consumer_protocol as wire
from barnabas.wire.messages.join_group import JoinGroupResponseMember

PROTOCOL_TYPE = "consumer"
_SUBSCRIPTION_VERSION = 3
_SHARE_VERSION = 1
_VERSION_SIZE = 2
_NAMED_MAX = 3


def encode_subscription(
    topics: Sequence[str],
    owned: Iterable[TopicPartition],
    generation: int,
    rack: str | None,
    user_data: bytes | None,
) -> bytes:
    message = wire.ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=_by_topic(owned),
        generation_id=generation,
        rack_id=rack,
    )
    return _SUBSCRIPTION_VERSION.to_bytes(_VERSION_SIZE) + message.encode(_SUBSCRIPTION_VERSION)


def member_of(joined: JoinGroupResponseMember) -> GroupSubscriber:
    """As the assignors see it."""
    try:
        version = _version(joined.metadata, _SUBSCRIPTION_VERSION)
        read = wire.ConsumerProtocolSubscription.decode(joined.metadata, version, _VERSION_SIZE)
    except KafkaError:
        return GroupSubscriber(joined.member_id, (), joined.group_instance_id)
    return GroupSubscriber(
        joined.member_id,
        tuple(read.topics),
        joined.group_instance_id,
        read.rack_id,
        _flat(read.owned_partitions),
        read.generation_id,
        read.user_data,
    )


def wanted_by_all(members: Iterable[JoinGroupResponseMember]) -> tuple[str, ...]:
    """The topics that a leader has to share out."""
    return tuple(dict.fromkeys(name for one in members for name in member_of(one).topics))


def changes(before: Iterable[str], now: Iterable[str]) -> str:
    """Who came and went since a leader last led."""
    came = [one for one in now if one not in set(before)]
    went = [one for one in before if one not in set(now)]
    return "; ".join(
        [f"{one} joined" for one in came[:_NAMED_MAX]]
        + [f"{one} is gone" for one in went[:_NAMED_MAX]]
    )


def encode_shares(partitions: Iterable[TopicPartition]) -> bytes:
    message = wire.ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions))
    return _SHARE_VERSION.to_bytes(_VERSION_SIZE) + message.encode(_SHARE_VERSION)


def read_share(data: bytes) -> tuple[TopicPartition, ...]:
    """Nothing at all, which some leaders send, is a share of nothing."""
    if not data:
        return ()
    try:
        version = _version(data, _SHARE_VERSION)
        read = wire.ConsumerProtocolAssignment.decode(data, version, _VERSION_SIZE)
    except KafkaError as problem:
        raise Corrupt(f"the leader's assignment cannot be read: {problem.detail}") from None
    return _flat(read.assigned_partitions)


def _version(data: bytes, newest: int) -> int:
    if len(data) < _VERSION_SIZE:
        raise Corrupt(f"{len(data)} bytes have no version")
    version = int.from_bytes(data[:_VERSION_SIZE], signed=True)
    if version < 0:
        raise Corrupt(f"version {version}")
    return min(version, newest)


def _flat(topics: Iterable[wire.TopicPartition]) -> tuple[TopicPartition, ...]:
    found = {TopicPartition(one.topic, number): None for one in topics for number in one.partitions}
    return tuple(at for at in found if at.partition >= 0)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[wire.TopicPartition]:
    topics: dict[str, list[int]] = {}
    for at in sorted(partitions):
        topics.setdefault(at.topic, []).append(at.partition)
    return [
        wire.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in topics.items()
    ]
