"""DescribeTransactions: state of transactional ids."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(ProtocolMessage):
    """Transactional ids whose state is asked for."""

    transactional_ids: list[str]


class TopicData(Struct):
    topic: str
    partitions: list[Int32]


class DescribedTransaction(Struct):
    error_code: Int16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(ProtocolMessage):
    """The state of each transactional id, with the partitions that have no marker yet."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransaction]
