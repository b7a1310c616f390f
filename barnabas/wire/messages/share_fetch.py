"""ShareFetch: acquires records for a member of a share group, and acknowledges others."""

from uuid import UUID

from barnabas.wire.codec import (
    Int8,
    Int16,
    Int32,
    Int64,
    ProtocolMessage,
    SlicedRecords,
    Struct,
    message,
    since,
)


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class FetchPartition(Struct):
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: UUID
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: UUID
    partitions: list[Int32]


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchRequest(ProtocolMessage):
    """The partitions of a share session, and acknowledgements.

    v2: the acquire mode, and renewal of locks.
    """

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFF_FFFF
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = since(2, default=0, ignorable=True)
    is_renew_ack: bool = since(2, default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class AcquiredRecords(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: SlicedRecords
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message(api_key=78, versions="1-2", flexible="0+", records=True)
class ShareFetchResponse(ProtocolMessage):
    """Record batches, and which of their offsets the member has acquired. v2: as v1."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
