"""SaslHandshake: chooses a SASL mechanism."""

from barnabas.wire.codec import Int16, ProtocolMessage, message


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest(ProtocolMessage):
    """The mechanism a client wants to use. v1: tokens follow in SaslAuthenticate."""

    mechanism: str


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(ProtocolMessage):
    """The mechanisms the broker offers."""

    error_code: Int16
    mechanisms: list[str]
