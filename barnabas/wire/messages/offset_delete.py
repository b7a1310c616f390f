"""OffsetDelete: deletes committed offsets."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: str
    partitions: list[OffsetDeleteRequestPartition]


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteRequest(ProtocolMessage):
    """Committed offsets to delete."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetDeleteResponseTopic(Struct):
    name: str
    partitions: list[OffsetDeleteResponsePartition]


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteResponse(ProtocolMessage):
    """Which offsets were deleted."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
