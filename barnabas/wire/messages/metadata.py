"""Metadata: brokers, topics and leaders."""

from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID as NO_ID
from barnabas.wire.codec import (
    Int16,
    Int32,
    ProtocolMessage,
    Struct,
    message,
    nullable_since,
    since,
)


class MetadataRequestTopic(Struct):
    topic_id: UUID = since(10, default=NO_ID, ignorable=True)
    name: str | None = nullable_since(10)


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(ProtocolMessage):
    """Requests topics, partitions and leaders.

    v1: null asks for all topics, none for none. v4: may topics be created.
    v8: allowed operations. v9: flexible. v10: topic ids. v11: no cluster operations.
    v12: topics asked for by id.
    """

    topics: list[MetadataRequestTopic] | None = nullable_since(1)
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = since(8, default=False, last=10)
    include_topic_authorized_operations: bool = since(8, default=False)


class MetadataResponseBroker(Struct):
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = since(1, default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = since(5, default=[], ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16
    name: str | None = nullable_since(12)
    topic_id: UUID = since(10, default=NO_ID, ignorable=True)
    is_internal: bool = since(1, default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = since(8, default=-0x8000_0000)


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(ProtocolMessage):
    """Brokers, topics and leaders.

    v1: racks, controller. v2: cluster id. v5: offline replicas. v7: leader epochs.
    v8: allowed operations. v9: flexible. v10: topic ids. v11: no cluster operations.
    v12: names may be null. v13: an error for the whole response.
    """

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = since(8, default=-0x8000_0000, last=10)
    error_code: Int16 = since(13, default=0, ignorable=True)
