"""UnregisterBroker: removes a broker that is gone for good."""

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, message


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(ProtocolMessage):
    """The broker to forget."""

    broker_id: Int32


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(ProtocolMessage):
    """Forgotten, or why not."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
