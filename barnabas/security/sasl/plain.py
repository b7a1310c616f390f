"""PLAIN (RFC 4616): the client sends its name and password as they are.

Always: the time of a check does not depend on how much of a password is right, nor on whether the
user exists.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest

from barnabas.security.sasl.mechanism import LoginFailed, SaslIdentity

Passwords = Callable[[str, str], bool]
"""Whether this is the password of this user."""


def password_check(users: Mapping[str, str]) -> Passwords:
    """Checks passwords of a fixed list."""
    nobody = _digest("")
    digests = {user: _digest(password) for user, password in users.items()}

    def check(user: str, password: str) -> bool:
        known = digests.get(user)
        # Compared in any case, so that an unknown user takes as long.
        same = compare_digest(_digest(password), known or nobody)
        return same and known is not None

    return check


def _digest(password: str) -> bytes:
    return sha256(password.encode("utf-8", "surrogatepass")).digest()


class PlainServer:
    """One exchange: one token."""

    def __init__(self, check: Passwords) -> None:
        self._check = check
        self.identity: SaslIdentity | None = None

    def respond(self, token: bytes) -> bytes:
        if self.identity is not None:
            raise LoginFailed("the client sent a token after the last one")
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise LoginFailed(f"expected 3 parts with NUL between them, not {len(parts)}")
        try:
            authorization_id, user, password = (str(part, "utf-8") for part in parts)
        except UnicodeDecodeError:
            raise LoginFailed("the token is not UTF-8") from None
        if not user or not password:
            raise LoginFailed("the user or the password is empty")
        if authorization_id not in ("", user):
            raise LoginFailed(f"user {user!r:.100} requests to act as {authorization_id!r:.100}")
        if not self._check(user, password):
            raise LoginFailed(f"user {user!r:.100}: unknown user or wrong password")
        self.identity = SaslIdentity(user)
        return b""


class PlainClient:
    """One exchange: one token."""

    __slots__ = ("_password", "_user", "done")

    def __init__(self, user: str, password: str) -> None:
        if "\0" in user or "\0" in password:
            raise ValueError("a user or password for PLAIN cannot contain NUL")
        self._user = user
        self._password = password
        self.done = False

    def first(self) -> bytes:
        self.done = True
        return f"\0{self._user}\0{self._password}".encode()

    def respond(self, token: bytes) -> None:
        """The broker has nothing to say in PLAIN."""
