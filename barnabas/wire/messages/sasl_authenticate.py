"""SaslAuthenticate: exchanges SASL tokens."""

from barnabas.wire.codec import Int16, Int64, ProtocolMessage, message, since


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(ProtocolMessage):
    """One token of the client. v2: flexible."""

    auth_bytes: bytes


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(ProtocolMessage):
    """One token of the broker. v1: lifetime of the session. v2: flexible."""

    error_code: Int16
    error_message: str | None = None
    auth_bytes: bytes
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)
