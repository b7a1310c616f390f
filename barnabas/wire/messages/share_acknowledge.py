"""ShareAcknowledge: acknowledges records of a share group."""

from uuid import UUID

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class AcknowledgePartition(Struct):
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: UUID
    partitions: list[AcknowledgePartition]


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest(ProtocolMessage):
    """Acknowledgements by ranges of offsets. v2: renewal of locks."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    is_renew_ack: bool = since(2, default=False)
    topics: list[AcknowledgeTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(ProtocolMessage):
    """The result for each partition. v2: the duration of a lock."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
