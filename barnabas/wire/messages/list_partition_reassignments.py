"""ListPartitionReassignments: reassignments in progress."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


class ListPartitionReassignmentsTopics(Struct):
    name: str
    partition_indexes: list[Int32]


@message(api_key=46, versions="0-0", flexible="0+")
class ListPartitionReassignmentsRequest(ProtocolMessage):
    """The requested partitions; null for all."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


class OngoingTopicReassignment(Struct):
    name: str
    partitions: list[OngoingPartitionReassignment]


@message(api_key=46, versions="0-0", flexible="0+")
class ListPartitionReassignmentsResponse(ProtocolMessage):
    """The partitions with a reassignment in progress."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    topics: list[OngoingTopicReassignment]
