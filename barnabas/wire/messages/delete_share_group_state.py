"""DeleteShareGroupState: deletes the state of share-partitions."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


class PartitionData(Struct):
    partition: Int32


class DeleteStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(ProtocolMessage):
    """From the group coordinator: the partitions."""

    group_id: str
    topics: list[DeleteStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: str | None = None


class DeleteStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(ProtocolMessage):
    """The result for each partition."""

    results: list[DeleteStateResult]
