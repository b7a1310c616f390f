"""InitializeShareGroupState: begins the state of share-partitions."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class PartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializeStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(ProtocolMessage):
    """From the group coordinator: state epoch and start offset of each partition."""

    group_id: str
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: str | None = None


class InitializeStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(ProtocolMessage):
    """The result for each partition."""

    results: list[InitializeStateResult]
