"""The records of streams groups in __consumer_offsets: Kafka's keys and values.

In: records to encode, or the key and value of one that was read. Out: bytes, or records.
Always: as Kafka 4.3 writes them. Warm-up tasks are written as none: Kafka 4.3 has none either.
Not here: what the records change (stored.py).
"""

from typing import NamedTuple

from barnabas.wire.codec import (
    Int8,
    Int16,
    Int32,
    Int64,
    ProtocolMessage,
    Struct,
    UInt16,
    message,
    tagged,
)

STREAMS_EPOCH_KEY = 17
STREAMS_MEMBER_KEY = 19
STREAMS_TARGET_EPOCH_KEY = 20
STREAMS_TARGET_KEY = 21
STREAMS_CURRENT_KEY = 22
STREAMS_TOPOLOGY_KEY = 23


@message(versions="0")
class StreamsGroupKey(ProtocolMessage):
    """The group (keys 17, 20 and 23)."""

    group: str


@message(versions="0")
class StreamsMemberKey(ProtocolMessage):
    """The group and the member (keys 19, 21 and 22)."""

    group: str
    member: str


class AssignmentSetting(Struct):
    key: str
    value: str


@message(versions="0", flexible="0+")
class StreamsEpochValue(ProtocolMessage):
    """The group's epoch, a hash of its topics, the topology whose topics are all there (-1: none),
    and the settings of the assignor."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = tagged(0, since=0, default=-1)
    last_assignment_configs: list[AssignmentSetting] | None = tagged(1, since=0, default=None)


class RecordedEndpoint(Struct):
    host: str
    port: UInt16


class ClientTag(Struct):
    key: str
    value: str


@message(versions="0", flexible="0+")
class StreamsMemberValue(ProtocolMessage):
    """A member: the process that it belongs to, and where that answers interactive queries."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: str
    user_endpoint: RecordedEndpoint | None = None
    client_tags: list[ClientTag]


@message(versions="0", flexible="0+")
class StreamsTargetEpochValue(ProtocolMessage):
    """The group's epoch that the targets are for, and their time."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, since=0, default=0)


class TargetTasks(Struct):
    subtopology_id: str
    partitions: list[Int32]


@message(versions="0", flexible="0+")
class StreamsTargetValue(ProtocolMessage):
    """The tasks that a member is to have."""

    active_tasks: list[TargetTasks]
    standby_tasks: list[TargetTasks]
    warmup_tasks: list[TargetTasks]


class CurrentTasks(Struct):
    """`assignment_epochs`: of active tasks, the epoch since which the member has had each."""

    subtopology_id: str
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = tagged(0, since=0, default=None)


@message(versions="0", flexible="0+")
class StreamsCurrentValue(ProtocolMessage):
    """A member's epoch, its tasks, and those that it must release."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[CurrentTasks]
    standby_tasks: list[CurrentTasks]
    warmup_tasks: list[CurrentTasks]
    active_tasks_pending_revocation: list[CurrentTasks]
    standby_tasks_pending_revocation: list[CurrentTasks]
    warmup_tasks_pending_revocation: list[CurrentTasks]


class TopicSetting(Struct):
    key: str
    value: str


class RecordedTopicInfo(Struct):
    """An internal topic. `partitions` 0: as many as follow from the topology."""

    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[TopicSetting]


class RecordedCopartition(Struct):
    """Topics with equally many partitions, as indexes into the lists of the subtopology."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


class RecordedSubtopology(Struct):
    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[RecordedTopicInfo]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[RecordedTopicInfo]
    copartition_groups: list[RecordedCopartition]


@message(versions="0", flexible="0+")
class StreamsTopologyValue(ProtocolMessage):
    """The topology of the application."""

    epoch: Int32
    subtopologies: list[RecordedSubtopology]


class StreamsGroupRecord(NamedTuple):
    """`name`: the member, where the key has one. Without a value, it is deleted."""

    key: int
    group: str
    name: str
    value: ProtocolMessage | None


_VALUES: dict[int, type[ProtocolMessage]] = {
    STREAMS_EPOCH_KEY: StreamsEpochValue,
    STREAMS_MEMBER_KEY: StreamsMemberValue,
    STREAMS_TARGET_EPOCH_KEY: StreamsTargetEpochValue,
    STREAMS_TARGET_KEY: StreamsTargetValue,
    STREAMS_CURRENT_KEY: StreamsCurrentValue,
    STREAMS_TOPOLOGY_KEY: StreamsTopologyValue,
}
_WITHOUT_NAME = (STREAMS_EPOCH_KEY, STREAMS_TARGET_EPOCH_KEY, STREAMS_TOPOLOGY_KEY)
_VERSION_0 = b"\0\0"


def encode(record: StreamsGroupRecord) -> tuple[bytes, bytes | None]:
    prefix = record.key.to_bytes(2)
    if record.key in _WITHOUT_NAME:
        key = prefix + StreamsGroupKey(group=record.group).encode(0)
    else:
        key = prefix + StreamsMemberKey(group=record.group, member=record.name).encode(0)
    return key, None if record.value is None else _VERSION_0 + record.value.encode(0)


def decode(kind: int, key: bytes, value: bytes | None, version: int) -> StreamsGroupRecord:
    """`kind` and `version` precede key and value, and have been read."""
    found = None if value is None else _VALUES[kind].decode(value, version, 2)
    if kind in _WITHOUT_NAME:
        return StreamsGroupRecord(kind, StreamsGroupKey.decode(key, 0, 2).group, "", found)
    named = StreamsMemberKey.decode(key, 0, 2)
    return StreamsGroupRecord(kind, named.group, named.member, found)
