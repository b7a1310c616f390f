"""ElectLeaders: elects leaders on request."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message, since


class TopicPartitions(Struct):
    topic: str
    partitions: list[Int32]


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(ProtocolMessage):
    """Partitions to elect leaders for; null for all. v1: unclean elections. v2: flexible."""

    election_type: Int8 = since(1, default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32
    error_code: Int16
    error_message: str | None = None


class ReplicaElectionResult(Struct):
    topic: str
    partition_result: list[PartitionResult]


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(ProtocolMessage):
    """How each election went. v1: an error for all. v2: flexible."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: list[ReplicaElectionResult]
