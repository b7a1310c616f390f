"""DescribeProducers: active producers of partitions."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class TopicRequest(Struct):
    name: str
    partition_indexes: list[Int32]


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(ProtocolMessage):
    """Which producers are active on partitions."""

    topics: list[TopicRequest]


class ProducerState(Struct):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    name: str
    partitions: list[PartitionResponse]


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(ProtocolMessage):
    """Active producers, with their sequences and open transactions."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse]
