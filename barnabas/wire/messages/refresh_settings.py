"""From a broker to another: settings have changed, put them in force. An API of Barnabas' own."""

from barnabas.wire.codec import Int16, Message, message


@message(api_key=20_004, versions="0", flexible="0+")
class RefreshSettingsRequest(Message):
    """The changes are in the keeper."""


@message(api_key=20_004, versions="0", flexible="0+")
class RefreshSettingsResponse(Message):
    """What the keeper had when the request came is in force."""

    error_code: Int16
