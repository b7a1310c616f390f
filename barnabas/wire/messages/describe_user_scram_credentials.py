"""DescribeUserScramCredentials: which users have passwords for SCRAM."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message


class UserName(Struct):
    name: str


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(ProtocolMessage):
    """The users; null or none: all."""

    users: list[UserName] | None = None


class CredentialInfo(Struct):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    user: str
    error_code: Int16
    error_message: str | None = None
    credential_infos: list[CredentialInfo]


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(ProtocolMessage):
    """Mechanisms and iterations, never the credentials."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult]
