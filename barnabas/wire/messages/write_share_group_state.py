"""WriteShareGroupState: changes the state of share-partitions."""

from uuid import UUID

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class PartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(ProtocolMessage):
    """From a partition leader: ranges of offsets. v1: how many deliveries are complete."""

    group_id: str
    topics: list[WriteStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: str | None = None


class WriteStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(ProtocolMessage):
    """The result for each partition. v1: as v0."""

    results: list[WriteStateResult]
