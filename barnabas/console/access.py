"""Tokens, sessions and form tokens.

Always: comparisons take the same time for any input; a session is derived from the secret of this
process, so it ends with the process; after five wrong tokens in a minute all further ones are
refused until the minute is over.
"""

import hmac
import ipaddress
from dataclasses import dataclass, field
from hashlib import sha256

COOKIE = "barnabas_console"
TRIES_MAX = 5
TRIES_MS = 60_000


@dataclass
class ConsoleAccess:
    """`token` None: everyone who reaches the address may look, as with the broker's own port."""

    secret: bytes
    token: str | None = None
    hosts: frozenset[str] = frozenset({"localhost"})
    _wrong_at: list[int] = field(default_factory=list)

    def session(self) -> str:
        return self._mac(f"session:{self.token}")

    def form_token(self) -> str:
        return self._mac("form")

    def is_session(self, cookie: str) -> bool:
        return self.token is None or hmac.compare_digest(cookie.encode(), self.session().encode())

    def is_form_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.form_token().encode())

    def may_try(self, now_ms: int) -> bool:
        self._wrong_at = [at for at in self._wrong_at if now_ms - at < TRIES_MS]
        return len(self._wrong_at) < TRIES_MAX

    def try_token(self, given: str, now_ms: int) -> bool:
        if self.token is None or hmac.compare_digest(given.encode(), self.token.encode()):
            return True
        self.count_wrong(now_ms)
        return False

    def count_wrong(self, now_ms: int) -> None:
        self._wrong_at.append(now_ms)

    def is_own_host(self, host: str) -> bool:
        """A name may be made to point here by others (DNS rebinding), an address may not."""
        name = host_name(host)
        if name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _mac(self, what: str) -> str:
        return hmac.new(self.secret, what.encode(), sha256).hexdigest()


def host_name(host: str) -> str:
    """Of a Host header: without the port and the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
