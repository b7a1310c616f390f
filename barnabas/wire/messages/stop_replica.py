"""StopReplica: from the controller to a broker: replicas that it no longer has."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class StopReplicaPartitionState(Struct):
    partition_index: Int32
    leader_epoch: Int32 = -1
    delete_partition: bool


class StopReplicaTopicState(Struct):
    topic_name: str
    partition_states: list[StopReplicaPartitionState]


@message(api_key=5, versions="4", flexible="2+", large=True)
class StopReplicaRequest(ProtocolMessage):
    """Replicas to stop, and which of them to delete."""

    controller_id: Int32
    is_k_raft_controller: bool = False
    controller_epoch: Int32
    broker_epoch: Int64 = -1
    topic_states: list[StopReplicaTopicState]


class StopReplicaPartitionError(Struct):
    topic_name: str
    partition_index: Int32
    error_code: Int16


@message(api_key=5, versions="4", flexible="2+")
class StopReplicaResponse(ProtocolMessage):
    """What became of each replica, unless the request as a whole was refused."""

    error_code: Int16
    partition_errors: list[StopReplicaPartitionError]
