"""AddOffsetsToTxn: adds a group's offsets to a transaction."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, message


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(ProtocolMessage):
    """A group whose offsets join a transaction. v3: flexible. v4: as v3."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(ProtocolMessage):
    """Whether the offsets may join. v3: flexible."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
