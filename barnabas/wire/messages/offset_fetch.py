"""OffsetFetch: reads committed offsets."""

from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID as NO_ID
from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since, until


class OffsetFetchRequestTopic(Struct):
    name: str
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: UUID = since(10, default=NO_ID, ignorable=True)
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: str
    member_id: str | None = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(ProtocolMessage):
    """Requests the committed offsets of groups.

    v2: null asks for all topics. v6: flexible. v7: stable offsets only. v8: several groups.
    v9: new group protocol. v10: topics by id.
    """

    group_id: str = until(7, default="")
    topics: list[OffsetFetchRequestTopic] | None = until(7, default=[], nullable=2)
    groups: list[OffsetFetchRequestGroup] = since(8, default=[])
    require_stable: bool = since(7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(5, default=-1, ignorable=True)
    metadata: str | None = None
    error_code: Int16


class OffsetFetchResponseTopic(Struct):
    name: str
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: str | None = None
    error_code: Int16


class OffsetFetchResponseTopics(Struct):
    name: str = until(9, default="", ignorable=True)
    topic_id: UUID = since(10, default=NO_ID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(ProtocolMessage):
    """Committed offsets with their metadata.

    v2: an error for all. v3: throttle time. v5: leader epochs. v6: flexible.
    v8: several groups. v10: topics by id.
    """

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = until(7, default=[])
    error_code: Int16 = since(2, default=0, last=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = since(8, default=[])
