"""CreateDelegationToken: a token with which others may act for its owner."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class CreatableRenewers(Struct):
    principal_type: str
    principal_name: str


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest(ProtocolMessage):
    """v2: flexible. v3: for another owner."""

    owner_principal_type: str | None = since(3, default=None)
    owner_principal_name: str | None = since(3, default=None)
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(ProtocolMessage):
    """The token and its secret. v3: who asked for it."""

    error_code: Int16
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = since(3, default="", ignorable=True)
    token_requester_principal_name: str = since(3, default="", ignorable=True)
    issue_timestamp_ms: Int64 = -1
    expiry_timestamp_ms: Int64 = -1
    max_timestamp_ms: Int64 = -1
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0
