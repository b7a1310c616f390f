"""The records of classic groups and offsets in __consumer_offsets: Kafka's keys and values.

In: records to encode, or the key and value of one that was read. Out: bytes, or records.
Always: written in the versions that Kafka 4.3 writes, read in every version there was.
Not here: what the records change (state.py), records of consumer groups (consumer/records.py), of
share groups (share/records.py) and of streams groups (streams/records.py).
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Union
from uuid import UUID

from msgspec import Struct as Plain

from barnabas.assignment.java_order import text_hash
from barnabas.coordinators.groups.consumer import records as consumer_records
from barnabas.coordinators.groups.consumer.records import ConsumerRecord
from barnabas.coordinators.groups.share import records as share_records
from barnabas.coordinators.groups.share.records import ShareGroupRecord
from barnabas.model.errors import Corrupt, KafkaError
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.codec import (
    Int32,
    Int64,
    ProtocolMessage,
    Struct,
    by_position,
    message,
    since,
    tagged,
)

if TYPE_CHECKING:
    from barnabas.coordinators.groups.streams.records import StreamsGroupRecord

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3
VALUE_VERSION_MAX = 4
STREAMS_KEYS = (17, 19, 20, 21, 22, 23)  # their code is imported with the first of them

NO_EXPIRY = -1
REMEMBERED_CHARS_MAX = 300  # of a group's name: for longer ones nothing is cached

_VERSION = Layout(">h")
_PARTITION = Layout(">i")
_PLAIN = Layout(">hqihq")  # the value of an offset without metadata, its version in front
_pack_partition = _PARTITION.pack
_pack_plain = _PLAIN.pack
_VERSION_BYTES = tuple(_VERSION.pack(version) for version in range(VALUE_VERSION_MAX + 1))


@message(versions="0-1")
class OffsetCommitKey(ProtocolMessage):
    """The group and the partition of an offset."""

    group: str
    topic: str
    partition: Int32


@message(versions="0-4", flexible="4+")
class OffsetCommitValue(ProtocolMessage):
    """An offset and its time. v1 only: when it expires. v3: leader epoch. v4: flexible."""

    offset: Int64
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = since(1, default=NO_EXPIRY, last=1, ignorable=True)
    topic_id: UUID = tagged(0, since=4, default=NO_TOPIC_ID, ignorable=True)


offset_value = by_position(OffsetCommitValue)


@message(versions="2")
class GroupMetadataKey(ProtocolMessage):
    """The group."""

    group: str


class MemberMetadata(Struct):
    """A member and its assignment. v1: rebalance timeout. v3: static membership."""

    member_id: str
    group_instance_id: str | None = since(3, default=None, ignorable=True)
    client_id: str
    client_host: str
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32
    subscription: bytes
    assignment: bytes


@message(versions="0-4", flexible="4+")
class GroupMetadataValue(ProtocolMessage):
    """One generation, or an empty group. v2: the time of its state. v4: flexible."""

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: list[MemberMetadata]


class OffsetRecord(Plain, frozen=True, gc=False):
    """A committed offset; without a value, a deleted one."""

    group: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


class GroupRecord(NamedTuple):
    """A group's generation; without a value, a deleted group."""

    group: str
    value: GroupMetadataValue | None


GroupedRecord: TypeAlias = Union[
    GroupRecord, ConsumerRecord, ShareGroupRecord, "StreamsGroupRecord"
]
Record: TypeAlias = OffsetRecord | GroupedRecord


def encode(records: Sequence[Record]) -> list[tuple[bytes, bytes | None]]:
    """Keys and values as the log has them."""
    encoded = []
    group: str | None = None
    topic: str | None = None
    prefix = b""
    for record in records:
        if not isinstance(record, OffsetRecord):
            encoded.append(_encode_group(record))
            continue
        if record.topic is not topic or record.group is not group:  # they come in runs
            group, topic = record.group, record.topic
            prefix = _prefix_of(group, topic)
        key = prefix + _pack_partition(record.partition)
        value = record.value
        encoded.append((key, None if value is None else _encode_offset(value)))
    return encoded


def _encode_offset(value: OffsetCommitValue) -> bytes:
    if value.expire_timestamp != NO_EXPIRY:
        return _with_version(value, OFFSET_VALUE_VERSION_WITH_EXPIRY)
    if value.metadata:
        return _with_version(value, OFFSET_VALUE_VERSION)
    epoch, timestamp = value.leader_epoch, value.commit_timestamp
    return _pack_plain(OFFSET_VALUE_VERSION, value.offset, epoch, 0, timestamp)


def _encode_group(record: GroupedRecord) -> tuple[bytes, bytes | None]:
    if isinstance(record, ShareGroupRecord):
        return share_records.encode(record)
    if isinstance(record, ConsumerRecord):
        return consumer_records.encode(record)
    if not isinstance(record, GroupRecord):
        from barnabas.coordinators.groups.streams import records as streams_records

        return streams_records.encode(record)
    key = GroupMetadataKey(group=record.group).encode(GROUP_KEY_VERSION)
    value = record.value
    return (
        _VERSION_BYTES[GROUP_KEY_VERSION] + key,
        None if value is None else _with_version(value, GROUP_VALUE_VERSION),
    )


def decode(key: bytes, value: bytes | None) -> Record | None:
    """None for a record that is about something else than groups and offsets."""
    quick = _decode_plain_offset(key, value)
    return quick or _decode(key, value)


def _decode_plain_offset(key: bytes, value: bytes | None) -> OffsetRecord | None:
    """The usual record: an offset without metadata. This path loads a million of them in a third
    of the time."""
    if value is None or len(value) != _PLAIN.size or key[:2] != _VERSION_BYTES[1]:
        return None
    if len(key) > 2 * REMEMBERED_CHARS_MAX:
        return None
    version, offset, epoch, metadata_length, timestamp = _PLAIN.unpack(value)
    if version != OFFSET_VALUE_VERSION or metadata_length:
        return None
    names = _group_and_topic(key[:-4])
    if names is None:
        return None
    (partition,) = _PARTITION.unpack_from(key, len(key) - _PARTITION.size)
    return OffsetRecord(*names, partition, offset_value(offset, "", timestamp, epoch))


@lru_cache(maxsize=8_192)
def _group_and_topic(prefix: bytes) -> tuple[str, str] | None:
    """From a key without its partition; None if it is something else."""
    try:
        key = OffsetCommitKey.decode(prefix + bytes(4), 1, _VERSION.size)
    except KafkaError:
        return None
    exact = OffsetCommitKey(group=key.group, topic=key.topic, partition=0).encode(1)
    return (key.group, key.topic) if len(exact) + _VERSION.size == len(prefix) + 4 else None


def _prefix_of(group: str, topic: str) -> bytes:
    if len(group) > REMEMBERED_CHARS_MAX:
        return _prefix.__wrapped__(group, topic)
    return _prefix(group, topic)


@lru_cache(maxsize=8_192)
def _prefix(group: str, topic: str) -> bytes:
    """The key of an offset up to its partition."""
    return _VERSION_BYTES[1] + OffsetCommitKey(group=group, topic=topic, partition=0).encode(1)[:-4]


def _decode(key: bytes, value: bytes | None) -> Record | None:
    version = _version(key, "key")
    try:
        if version in OFFSET_KEY_VERSIONS:
            offset_key = OffsetCommitKey.decode(key, version, _VERSION.size)
            committed = None
            if value is not None:
                committed = OffsetCommitValue.decode(value, _version(value), _VERSION.size)
            return OffsetRecord(offset_key.group, offset_key.topic, offset_key.partition, committed)
        if version == GROUP_KEY_VERSION:
            group_key = GroupMetadataKey.decode(key, version, _VERSION.size)
            generation = None
            if value is not None:
                generation = GroupMetadataValue.decode(value, _version(value), _VERSION.size)
            return GroupRecord(group_key.group, generation)
        if version in consumer_records.KEYS:
            found = 0 if value is None else _version(value)
            return consumer_records.decode(version, key, value, found)
        if version in share_records.KEYS:
            found = 0 if value is None else _version(value)
            return share_records.decode(version, key, value, found)
        if version in STREAMS_KEYS:
            from barnabas.coordinators.groups.streams import records as streams_records

            found = 0 if value is None else _version(value)
            return streams_records.decode(version, key, value, found)
    except Corrupt:
        raise
    except KafkaError as error:
        raise Corrupt(f"record with key {key[:200]!r} of a group: {error.detail}") from error
    return None


def partition_of(group: str, partitions: int) -> int:
    """The partition of a group: Java's hash of its name, without the sign."""
    if len(group) > REMEMBERED_CHARS_MAX:
        return _partition_of.__wrapped__(group, partitions)
    return _partition_of(group, partitions)


@lru_cache(maxsize=8_192)
def _partition_of(group: str, partitions: int) -> int:
    number = text_hash(group)
    if number >= 0x8000_0000:
        number = 0x1_0000_0000 - number
    # Java has no positive counterpart of its smallest integer: Kafka takes 0 for it.
    return 0 if number == 0x8000_0000 else number % partitions


def _with_version(value: ProtocolMessage, version: int) -> bytes:
    return _VERSION_BYTES[version] + value.encode(version)


def _version(data: bytes, what: str = "value") -> int:
    if len(data) < _VERSION.size:
        raise Corrupt(f"{what} of a group's record has {len(data)} bytes, too few for a version")
    (version,) = _VERSION.unpack_from(data)
    return int(version)
