"""DescribeShareGroupOffsets: start offsets of share groups."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str
    partitions: list[Int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(ProtocolMessage):
    """Partitions by group; without topics, all that the group has. v1: as v0."""

    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = since(1, default=-1, ignorable=True)
    error_code: Int16
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str
    topic_id: UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: str | None = None


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(ProtocolMessage):
    """Start offset of each partition. v1: lag."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
