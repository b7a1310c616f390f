"""ListTransactions: transactional ids of a broker."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(ProtocolMessage):
    """Which transactional ids are there. v1: by duration. v2: by a pattern of the id."""

    state_filters: list[str]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: str | None = since(2, default=None)


class ListedTransaction(Struct):
    transactional_id: str
    producer_id: Int64
    transaction_state: str


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(ProtocolMessage):
    """The transactional ids of this coordinator, and the states it was asked for but not known."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: list[str]
    transaction_states: list[ListedTransaction]
