"""What all SASL mechanisms share: their names, and the interface of an exchange."""

from typing import NamedTuple, Protocol

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"

MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""All that Barnabas has; GSSAPI needs native libraries and a Kerberos service."""
SCRAMS = (SCRAM_SHA_256, SCRAM_SHA_512)


class LoginFailed(Exception):
    """The peer has not proved who it is. The text is for the log of this side, never for the
    peer: it may say whether a user exists."""


class SaslIdentity(NamedTuple):
    """What an exchange proved.

    `expires_ms`: when the credential ends, in wall-clock time; None: it does not.
    `by_token`: the client used a delegation token, which is no permission to create others.
    """

    user: str
    expires_ms: int | None = None
    by_token: bool = False


class ServerExchange(Protocol):
    """The broker's side of one exchange. After LoginFailed it must not be used again."""

    identity: SaslIdentity | None
    """Set with the last reply of a successful exchange."""

    def respond(self, token: bytes) -> bytes:
        """The reply to a token of the client; LoginFailed ends the exchange."""
        ...


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    done: bool
    """Whether the client has seen all that it needs: before, a success of the broker is a lie."""

    def first(self) -> bytes:
        """The token that begins the exchange."""
        ...

    def respond(self, token: bytes) -> bytes | None:
        """The reply to a token of the broker; None: nothing more to say."""
        ...
