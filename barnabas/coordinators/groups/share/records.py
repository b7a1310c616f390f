"""The records of share groups in __consumer_offsets: Kafka's keys and values.

In: records to encode, or the key and value of one that was read. Out: bytes, or records.
Always: as Kafka 4.3 writes them.
Not here: what the records change (stored.py), the state of deliveries in __share_group_state
(coordinators/share/).
"""

from typing import NamedTuple
from uuid import UUID

from barnabas.wire.codec import Int8, Int32, Int64, ProtocolMessage, Struct, message, tagged

SHARE_MEMBER_KEY = 10
SHARE_EPOCH_KEY = 11
SHARE_TARGET_EPOCH_KEY = 12
SHARE_TARGET_KEY = 13
SHARE_CURRENT_KEY = 14
SHARE_STATE_KEY = 15
KEYS = (
    SHARE_MEMBER_KEY,
    SHARE_EPOCH_KEY,
    SHARE_TARGET_EPOCH_KEY,
    SHARE_TARGET_KEY,
    SHARE_CURRENT_KEY,
    SHARE_STATE_KEY,
)


@message(versions="0")
class ShareGroupKey(ProtocolMessage):
    """The group (keys 11, 12 and 15)."""

    group: str


@message(versions="0")
class ShareMemberKey(ProtocolMessage):
    """The group and the member (keys 10, 13 and 14)."""

    group: str
    member: str


@message(versions="0", flexible="0+")
class ShareMemberValue(ProtocolMessage):
    """A member and its subscription."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


@message(versions="0", flexible="0+")
class ShareEpochValue(ProtocolMessage):
    """The group's epoch, and a hash of its topics at that epoch."""

    epoch: Int32
    metadata_hash: Int64


@message(versions="0", flexible="0+")
class ShareTargetEpochValue(ProtocolMessage):
    """The group's epoch that the targets are for, and their time."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, since=0, default=0)


class SharedPartitions(Struct):
    topic_id: UUID
    partitions: list[Int32]


@message(versions="0", flexible="0+")
class ShareTargetValue(ProtocolMessage):
    """The partitions that a member is to read."""

    topic_partitions: list[SharedPartitions]


@message(versions="0", flexible="0+")
class ShareCurrentValue(ProtocolMessage):
    """A member's epoch and its partitions."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[SharedPartitions]


class StatePartitions(Struct):
    topic_id: UUID
    topic_name: str
    partitions: list[Int32]


class StateTopic(Struct):
    topic_id: UUID
    topic_name: str


@message(versions="0", flexible="0+")
class ShareStateValue(ProtocolMessage):
    """The partitions whose state is being initialized, is initialized, or is being deleted."""

    initializing_topics: list[StatePartitions]
    initialized_topics: list[StatePartitions]
    deleting_topics: list[StateTopic]


class ShareGroupRecord(NamedTuple):
    """`name`: the member, where the key has one. Without a value, it is deleted."""

    key: int
    group: str
    name: str
    value: ProtocolMessage | None


_VALUES: dict[int, type[ProtocolMessage]] = {
    SHARE_MEMBER_KEY: ShareMemberValue,
    SHARE_EPOCH_KEY: ShareEpochValue,
    SHARE_TARGET_EPOCH_KEY: ShareTargetEpochValue,
    SHARE_TARGET_KEY: ShareTargetValue,
    SHARE_CURRENT_KEY: ShareCurrentValue,
    SHARE_STATE_KEY: ShareStateValue,
}
_WITHOUT_NAME = (SHARE_EPOCH_KEY, SHARE_TARGET_EPOCH_KEY, SHARE_STATE_KEY)
_VERSION_0 = b"\0\0"


def encode(record: ShareGroupRecord) -> tuple[bytes, bytes | None]:
    prefix = record.key.to_bytes(2)
    if record.key in _WITHOUT_NAME:
        key = prefix + ShareGroupKey(group=record.group).encode(0)
    else:
        key = prefix + ShareMemberKey(group=record.group, member=record.name).encode(0)
    return key, None if record.value is None else _VERSION_0 + record.value.encode(0)


def decode(kind: int, key: bytes, value: bytes | None, version: int) -> ShareGroupRecord:
    """`kind` and `version` precede key and value, and have been read."""
    found = None if value is None else _VALUES[kind].decode(value, version, 2)
    if kind in _WITHOUT_NAME:
        return ShareGroupRecord(kind, ShareGroupKey.decode(key, 0, 2).group, "", found)
    named = ShareMemberKey.decode(key, 0, 2)
    return ShareGroupRecord(kind, named.group, named.member, found)
