"""TxnOffsetCommit: commits offsets with a transaction."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: str | None


class TxnOffsetCommitRequestTopic(Struct):
    name: str
    partitions: list[TxnOffsetCommitRequestPartition]


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(ProtocolMessage):
    """Offsets to commit with a transaction.

    v2: leader epochs. v3: flexible, the member's identity. v5: as v4.
    """

    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = since(3, default=-1)
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class TxnOffsetCommitResponseTopic(Struct):
    name: str
    partitions: list[TxnOffsetCommitResponsePartition]


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse(ProtocolMessage):
    """Which offsets were taken. v3: flexible."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
