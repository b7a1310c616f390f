"""The records of consumer groups in __consumer_offsets: Kafka's keys and values.

In: records to encode, or the key and value of one that was read. Out: bytes, or records.
Always: as Kafka 4.3 writes them. Of the partition metadata (key 4), which older brokers wrote, only
its existence is read.
Not here: what the records change (stored.py), classic groups and offsets (groups/records.py).
"""

from typing import NamedTuple
from uuid import UUID

from barnabas.wire.codec import Int8, Int32, Int64, ProtocolMessage, Struct, message, tagged

EPOCH_KEY = 3
PARTITIONS_KEY = 4
MEMBER_KEY = 5
TARGET_EPOCH_KEY = 6
TARGET_KEY = 7
CURRENT_KEY = 8
REGEX_KEY = 16
KEYS = (EPOCH_KEY, PARTITIONS_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, REGEX_KEY)


@message(versions="0")
class GroupKey(ProtocolMessage):
    """The group (keys 3, 4 and 6)."""

    group: str


@message(versions="0")
class NameKey(ProtocolMessage):
    """The group, and the member (keys 5, 7 and 8) or the pattern (key 16)."""

    group: str
    name: str


@message(versions="0", flexible="0+")
class EpochValue(ProtocolMessage):
    """The group's epoch, and a hash of its topics at that epoch."""

    epoch: Int32
    metadata_hash: Int64 = tagged(0, since=0, default=0)


class PartitionRacks(Struct):
    partition: Int32
    racks: list[str]


class RecordedTopic(Struct):
    topic_id: UUID
    topic_name: str
    num_partitions: Int32
    partition_metadata: list[PartitionRacks]


@message(versions="0", flexible="0+")
class PartitionsValue(ProtocolMessage):
    """Topics, as older brokers recorded them."""

    topics: list[RecordedTopic]


class ClassicProtocol(Struct):
    name: str
    metadata: bytes


class ClassicMetadata(Struct):
    """Of a member of the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


@message(versions="0", flexible="0+")
class MemberValue(ProtocolMessage):
    """A member and its subscription."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = None
    # Without the tag, Kafka reads an empty value, not null.
    classic_member_metadata: ClassicMetadata | None = tagged(
        0,
        since=0,
        default=ClassicMetadata(session_timeout_ms=0, supported_protocols=[]),
    )


@message(versions="0", flexible="0+")
class TargetEpochValue(ProtocolMessage):
    """The group's epoch that the targets are for, and their time."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, since=0, default=0)


class TargetPartitions(Struct):
    topic_id: UUID
    partitions: list[Int32]


@message(versions="0", flexible="0+")
class TargetValue(ProtocolMessage):
    """The partitions that a member is to own."""

    topic_partitions: list[TargetPartitions]


class CurrentPartitions(Struct):
    """`assignment_epochs`: the epoch since which the member has had each partition."""

    topic_id: UUID
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = tagged(0, since=0, default=None)


@message(versions="0", flexible="0+")
class CurrentValue(ProtocolMessage):
    """A member's epoch, its partitions, and those that it must release."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentPartitions]
    partitions_pending_revocation: list[CurrentPartitions]


@message(versions="0", flexible="0+")
class RegexValue(ProtocolMessage):
    """The topics that a pattern matched, and when."""

    topics: list[str]
    version: Int64
    timestamp: Int64


class ConsumerRecord(NamedTuple):
    """`name`: the member or the pattern, where the key has one. Without a value, it is deleted."""

    key: int
    group: str
    name: str
    value: ProtocolMessage | None


_VALUES: dict[int, type[ProtocolMessage]] = {
    EPOCH_KEY: EpochValue,
    PARTITIONS_KEY: PartitionsValue,
    MEMBER_KEY: MemberValue,
    TARGET_EPOCH_KEY: TargetEpochValue,
    TARGET_KEY: TargetValue,
    CURRENT_KEY: CurrentValue,
    REGEX_KEY: RegexValue,
}
_WITHOUT_NAME = (EPOCH_KEY, PARTITIONS_KEY, TARGET_EPOCH_KEY)
_VERSION_0 = b"\0\0"


def encode(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    prefix = record.key.to_bytes(2)
    if record.key in _WITHOUT_NAME:
        key = prefix + GroupKey(group=record.group).encode(0)
    else:
        key = prefix + NameKey(group=record.group, name=record.name).encode(0)
    return key, None if record.value is None else _VERSION_0 + record.value.encode(0)


def decode(kind: int, key: bytes, value: bytes | None, version: int) -> ConsumerRecord:
    """`kind` and `version` precede key and value, and have been read."""
    found = None if value is None else _VALUES[kind].decode(value, version, 2)
    if kind in _WITHOUT_NAME:
        return ConsumerRecord(kind, GroupKey.decode(key, 0, 2).group, "", found)
    named = NameKey.decode(key, 0, 2)
    return ConsumerRecord(kind, named.group, named.name, found)
