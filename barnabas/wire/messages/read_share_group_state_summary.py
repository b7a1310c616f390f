"""ReadShareGroupStateSummary: reads the start offsets of share-partitions."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class PartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateSummaryData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(ProtocolMessage):
    """From the group coordinator: the partitions. v1: as v0."""

    group_id: str
    topics: list[ReadStateSummaryData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: str | None = None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(ProtocolMessage):
    """Start offset of each partition. v1: how many deliveries are complete."""

    results: list[ReadStateSummaryResult]
