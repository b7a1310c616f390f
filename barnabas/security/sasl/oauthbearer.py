"""OAUTHBEARER (RFC 7628): the client sends a token of an identity provider.

In: tokens of SASL, a function that checks a token of the provider. Out: replies, and who the
client is.
Always: a token that is refused gets a JSON text, which the client confirms, and then the failure.
Not here: what makes a token valid (jwt_validation.py).
"""

import re
from collections.abc import Callable

from barnabas.security.sasl.mechanism import LoginFailed, SaslIdentity

TOKEN_LENGTH_MAX = 64 * 1024
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_INITIAL = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(r"[Bb]earer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_CONFIRMATION = b"\x01"
_INVALID = b'{"status":"invalid_token"}'

ValidateToken = Callable[[str], SaslIdentity]
"""Who a token of the identity provider belongs to; LoginFailed if it is not valid."""


class OAuthBearerServer:
    """One exchange: one token, or after a refusal two."""

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._refused = ""
        self.identity: SaslIdentity | None = None

    def respond(self, token: bytes) -> bytes:
        if self.identity is not None:
            raise LoginFailed("the client sent a token after the last one")
        if self._refused:
            raise LoginFailed(self._refused)
        authorization_id, bearer = _read_initial(token)
        try:
            identity = self._validate(bearer)
        except LoginFailed as failure:
            self._refused = str(failure)
            return _INVALID
        if authorization_id not in ("", identity.user):
            raise LoginFailed(
                f"user {identity.user!r:.100} requests to act as {authorization_id!r:.100}"
            )
        self.identity = identity
        return b""


class OAuthBearerClient:
    """One exchange."""

    __slots__ = ("_token", "done")

    def __init__(self, token: str) -> None:
        if not re.fullmatch(r"[-_~+/.a-zA-Z0-9]+=*", token):
            raise LoginFailed("the token for OAUTHBEARER is not a bearer token")
        self._token = token
        self.done = False

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def respond(self, token: bytes) -> bytes | None:
        if token:
            return _CONFIRMATION  # the broker refuses the token, and says so next
        self.done = True
        return None


def _read_initial(message: bytes) -> tuple[str, str]:
    """The authorization id, and the token of the identity provider."""
    if len(message) > TOKEN_LENGTH_MAX:
        raise LoginFailed(f"a token of {len(message)} bytes, {TOKEN_LENGTH_MAX} at most")
    found = _INITIAL.fullmatch(message.decode("latin-1"))
    if found is None:
        raise LoginFailed("the first message is not OAUTHBEARER")
    pairs: dict[str, str] = {}
    for pair in found["pairs"].split("\x01")[:-1]:
        name, _, value = pair.partition("=")
        if name in pairs:
            raise LoginFailed(f"the first message has {name!r:.100} twice")
        pairs[name] = value
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise LoginFailed("the first message has no bearer token")
    user = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return user, bearer["token"]
