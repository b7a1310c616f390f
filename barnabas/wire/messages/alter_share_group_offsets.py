"""AlterShareGroupOffsets: changes the start offsets of a share group."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32
    start_offset: Int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(ProtocolMessage):
    """New start offsets of a group without members."""

    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str
    topic_id: UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(ProtocolMessage):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
