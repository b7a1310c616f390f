"""AlterUserScramCredentials: sets and deletes passwords for SCRAM."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message


class ScramCredentialDeletion(Struct):
    name: str
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    name: str
    mechanism: Int8
    iterations: Int32
    salt: bytes
    salted_password: bytes


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(ProtocolMessage):
    """Salted passwords, which are as good as the passwords."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: str
    error_code: Int16
    error_message: str | None = None


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(ProtocolMessage):
    """Whether each was altered: one result per user."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
