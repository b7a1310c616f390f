"""ReadShareGroupState: reads the state of share-partitions."""

from uuid import UUID

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message


class PartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(ProtocolMessage):
    """From a partition leader, with its leader epoch."""

    group_id: str
    topics: list[ReadStateData]


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: str | None = None
    state_epoch: Int32
    start_offset: Int64
    state_batches: list[StateBatch]


class ReadStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(ProtocolMessage):
    """Start offset, and the ranges of offsets above it."""

    results: list[ReadStateResult]
