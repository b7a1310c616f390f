"""InitProducerId: the ids of idempotent and transactional producers."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, message, since


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest(ProtocolMessage):
    """Asks for a producer id, and fences older producers of a transactional id.

    v2: flexible. v3: an id and epoch to go on from. v4, v5: other errors.
    """

    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse(ProtocolMessage):
    """The producer id and epoch. v2: flexible."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
