"""ExpireDelegationToken: ends a token, or sets its end."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, message


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest(ProtocolMessage):
    """v2: flexible."""

    hmac: bytes
    expiry_time_period_ms: Int64


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(ProtocolMessage):
    """When the token ends."""

    error_code: Int16
    expiry_timestamp_ms: Int64 = -1
    throttle_time_ms: Int32 = 0
