"""EndTxn: ends a transaction."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, message, since


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(ProtocolMessage):
    """Commit or abort. v3: flexible. v5: the epoch is bumped with each transaction."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(ProtocolMessage):
    """Whether the transaction ends. v3: flexible. v5: the producer id and epoch to go on with."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)
