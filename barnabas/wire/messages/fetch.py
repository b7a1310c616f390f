"""Fetch: reads record batches."""

from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID as NO_ID
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
    tagged,
    until,
)


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: UUID = tagged(0, since=17, default=NO_ID, ignorable=True)
    high_watermark: Int64 = tagged(1, since=18, default=0x7FFF_FFFF_FFFF_FFFF, ignorable=True)


class FetchTopic(Struct):
    topic: str = until(12, default="", ignorable=True)
    topic_id: UUID = since(13, default=NO_ID, ignorable=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic: str = until(12, default="", ignorable=True)
    topic_id: UUID = since(13, default=NO_ID, ignorable=True)
    partitions: list[Int32]


@message(api_key=1, versions="4-18", flexible="12+")
class FetchRequest(ProtocolMessage):
    """Where to read on, per partition.

    v5: log start offset. v7: fetch sessions. v9: leader epochs. v11: rack.
    v12: flexible, divergence by epoch. v13: topics by id. v15: replica state.
    v17: directory ids. v18: the follower's high watermark.
    """

    cluster_id: str | None = tagged(0, since=12, default=None, ignorable=True)
    replica_id: Int32 = until(14, default=-1)
    replica_state: ReplicaState = tagged(1, since=15, default=ReplicaState())
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFF_FFFF
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = since(7, default=[])
    rack_id: str = since(11, default="", ignorable=True)


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = tagged(0, since=12, default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = tagged(1, since=12, default=LeaderIdAndEpoch())
    snapshot_id: SnapshotId = tagged(2, since=12, default=SnapshotId())
    aborted_transactions: list[AbortedTransaction] | None = None
    preferred_read_replica: Int32 = since(11, default=-1)
    records: SlicedRecords | None


class FetchableTopicResponse(Struct):
    topic: str = until(12, default="", ignorable=True)
    topic_id: UUID = since(13, default=NO_ID, ignorable=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message(api_key=1, versions="4-18", flexible="12+", records=True)
class FetchResponse(ProtocolMessage):
    """Record batches, whole, from the asked offsets on.

    v5: log start offset. v7: fetch sessions. v11: preferred replica. v12: flexible, divergence.
    v13: topics by id. v16: endpoints of new leaders.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, default=0, ignorable=True)
    session_id: Int32 = since(7, default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = tagged(0, since=16, default=[])
