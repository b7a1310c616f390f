"""UpdateMetadata: from the controller to a broker: the brokers and partitions of the cluster."""

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
    tagged,
)


class UpdateMetadataPartitionState(Struct):
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    zk_version: Int32
    replicas: list[Int32]
    offline_replicas: list[Int32] = since(0, default=[])


class UpdateMetadataTopicState(Struct):
    topic_name: str
    topic_id: UUID
    partition_states: list[UpdateMetadataPartitionState]


class UpdateMetadataEndpoint(Struct):
    port: Int32
    host: str
    listener: str
    security_protocol: Int16


class UpdateMetadataBroker(Struct):
    id: Int32
    endpoints: list[UpdateMetadataEndpoint]
    rack: str | None = None


@message(api_key=6, versions="8", flexible="6+", large=True)
class UpdateMetadataRequest(ProtocolMessage):
    """All live brokers, and partitions that have changed. `type`: 1 changes some, 2 is all."""

    controller_id: Int32
    is_k_raft_controller: bool = False
    type: Int8 = tagged(0, since=8, default=0)
    controller_epoch: Int32
    broker_epoch: Int64 = -1
    topic_states: list[UpdateMetadataTopicState]
    live_brokers: list[UpdateMetadataBroker]


@message(api_key=6, versions="8", flexible="6+")
class UpdateMetadataResponse(ProtocolMessage):
    """Taken in, or why not."""

    error_code: Int16
