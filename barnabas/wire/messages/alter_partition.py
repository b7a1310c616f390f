"""AlterPartition: changes an in-sync set."""

from uuid import UUID

from barnabas.wire.codec import (
    Int8,
    Int16,
    Int32,
    Int64,
    ProtocolMessage,
    Struct,
    message,
    since,
    until,
)


class BrokerState(Struct):
    broker_id: Int32
    broker_epoch: Int64 = -1


class PartitionData(Struct):
    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[Int32] = until(2, default=[])
    new_isr_with_epochs: list[BrokerState] = since(3, default=[])
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


class TopicData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


@message(api_key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest(ProtocolMessage):
    """A leader proposes a new in-sync set. v2: topics by id. v3: epochs of the replicas."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: list[TopicData]


class PartitionDataResponse(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


class TopicDataResponse(Struct):
    topic_id: UUID
    partitions: list[PartitionDataResponse]


@message(api_key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse(ProtocolMessage):
    """The partition's state after the proposal. v2: topics by id."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: list[TopicDataResponse]
