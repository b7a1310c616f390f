"""LeaderAndIsr: from the controller to a broker: which partitions it leads and follows."""

from uuid import UUID

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class LeaderAndIsrPartitionState(Struct):
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    partition_epoch: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32] = since(0, default=[])
    removing_replicas: list[Int32] = since(0, default=[])
    is_new: bool = False
    leader_recovery_state: Int8 = 0


class LeaderAndIsrTopicState(Struct):
    topic_name: str
    topic_id: UUID
    partition_states: list[LeaderAndIsrPartitionState]


class LeaderAndIsrLiveLeader(Struct):
    broker_id: Int32
    host_name: str
    port: Int32


@message(api_key=4, versions="7", flexible="4+", large=True)
class LeaderAndIsrRequest(ProtocolMessage):
    """States of partitions that the broker has a replica of. `type`: 1 changes some, 2 is all."""

    controller_id: Int32
    is_k_raft_controller: bool = False
    controller_epoch: Int32
    broker_epoch: Int64 = -1
    type: Int8 = 0
    topic_states: list[LeaderAndIsrTopicState]
    live_leaders: list[LeaderAndIsrLiveLeader]


class LeaderAndIsrPartitionError(Struct):
    partition_index: Int32
    error_code: Int16


class LeaderAndIsrTopicError(Struct):
    topic_id: UUID
    partition_errors: list[LeaderAndIsrPartitionError]


@message(api_key=4, versions="7", flexible="4+")
class LeaderAndIsrResponse(ProtocolMessage):
    """The result for each partition, unless the whole request was refused."""

    error_code: Int16
    topics: list[LeaderAndIsrTopicError]
