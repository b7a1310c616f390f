"""RefreshSettings, an API of Barnabas: from one broker to another: apply changed settings."""

from barnabas.wire.codec import Int16, ProtocolMessage, message


@message(api_key=20_004, versions="0", flexible="0+")
class RefreshSettingsRequest(ProtocolMessage):
    """The changes are in the keeper."""


@message(api_key=20_004, versions="0", flexible="0+")
class RefreshSettingsResponse(ProtocolMessage):
    """What the keeper had when the request came is in force."""

    error_code: Int16
