"""Produce: appends record batches."""

from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID as NO_ID
from barnabas.wire.codec import (
    Int16,
    Int32,
    Int64,
    ProtocolMessage,
    Records,
    Struct,
    message,
    since,
    tagged,
    until,
)


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None


class TopicProduceData(Struct):
    name: str = until(12, default="", ignorable=True)
    topic_id: UUID = since(13, default=NO_ID, ignorable=True)
    partition_data: list[PartitionProduceData]


@message(api_key=0, versions="3-13", flexible="9+", records=True)
class ProduceRequest(ProtocolMessage):
    """Record batches to append.

    v3: transactional id. v9: flexible. v12: transactions v2. v13: topics by id.
    """

    transactional_id: str | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = since(8, default=[], ignorable=True)
    error_message: str | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = tagged(0, since=10, default=LeaderIdAndEpoch())


class TopicProduceResponse(Struct):
    name: str = until(12, default="", ignorable=True)
    topic_id: UUID = since(13, default=NO_ID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse(ProtocolMessage):
    """Where each batch went.

    v5: log start offset. v8: which records were refused, and why. v9: flexible.
    v10: the new leader, for a producer that asked the old one. v13: topics by id.
    """

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = tagged(0, since=10, default=[])
