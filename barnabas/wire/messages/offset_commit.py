"""OffsetCommit: commits offsets."""

from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID as NO_ID
from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since, until


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: str | None


class OffsetCommitRequestTopic(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: UUID = since(10, default=NO_ID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(ProtocolMessage):
    """Offsets to commit for a group.

    v5: no retention time. v6: leader epochs. v7: static membership. v8: flexible.
    v9: new group protocol. v10: topics by id.
    """

    group_id: str
    generation_id_or_member_epoch: Int32 = -1
    member_id: str
    group_instance_id: str | None = since(7, default=None)
    retention_time_ms: Int64 = until(4, default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetCommitResponseTopic(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: UUID = since(10, default=NO_ID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(ProtocolMessage):
    """Which offsets were committed. v3: throttle time. v8: flexible. v10: topics by id."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
