"""DescribeDelegationToken: tokens that the client may know of."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


class DescribeDelegationTokenOwner(Struct):
    principal_type: str
    principal_name: str


@message(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest(ProtocolMessage):
    """The owners; null: all. v2: flexible."""

    owners: list[DescribeDelegationTokenOwner] | None = None


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str
    principal_name: str


class DescribedDelegationToken(Struct):
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = since(3, default="", ignorable=True)
    token_requester_principal_name: str = since(3, default="", ignorable=True)
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: str
    hmac: bytes
    renewers: list[DescribedDelegationTokenRenewer]


@message(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(ProtocolMessage):
    """Tokens and their secrets. v3: who asked for them."""

    error_code: Int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
