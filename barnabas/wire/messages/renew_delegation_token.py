"""RenewDelegationToken: makes a token valid for longer."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, message


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest(ProtocolMessage):
    """v2: flexible."""

    hmac: bytes
    renew_period_ms: Int64


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse(ProtocolMessage):
    """When the token ends."""

    error_code: Int16
    expiry_timestamp_ms: Int64 = -1
    throttle_time_ms: Int32 = 0
