"""DescribeTopicPartitions: partitions of topics, page by page."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


class TopicRequest(Struct):
    name: str


class Cursor(Struct):
    topic_name: str
    partition_index: Int32


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(ProtocolMessage):
    """Partitions of topics, page by page."""

    topics: list[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16
    name: str | None = None
    topic_id: UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -0x8000_0000


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(ProtocolMessage):
    """A page of partitions, and where the next one starts."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
