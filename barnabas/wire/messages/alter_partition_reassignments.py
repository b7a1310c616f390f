"""AlterPartitionReassignments: moves replicas."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message, since


class ReassignablePartition(Struct):
    partition_index: Int32
    replicas: list[Int32] | None = None


class ReassignableTopic(Struct):
    name: str
    partitions: list[ReassignablePartition]


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(ProtocolMessage):
    """The target replicas; null cancels a reassignment. v1: whether the number of replicas may
    change.
    """

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None


class ReassignableTopicResponse(Struct):
    name: str
    partitions: list[ReassignablePartitionResponse]


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(ProtocolMessage):
    """Whether each reassignment has begun."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = since(1, default=True, ignorable=True)
    error_code: Int16
    error_message: str | None = None
    responses: list[ReassignableTopicResponse]
