"""AddPartitionsToTxn: adds partitions to a transaction."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since, until


class AddPartitionsToTxnTopic(Struct):
    name: str
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic]


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(ProtocolMessage):
    """Partitions that join a transaction.

    v3: flexible. v4: several transactions at once, from brokers. v5: as v4.
    """

    transactions: list[AddPartitionsToTxnTransaction] = since(4, default=[])
    v3_and_below_transactional_id: str = until(3, default="")
    v3_and_below_producer_id: Int64 = until(3, default=0)
    v3_and_below_producer_epoch: Int16 = until(3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = until(3, default=[])


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(ProtocolMessage):
    """Which partitions joined. v3: flexible. v4: per transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4, default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = until(3, default=[])
