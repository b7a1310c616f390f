"""The keys of an identity provider (JWKS), from a file or an https address, kept fresh.

In: options. Out: a function that checks tokens with the keys of now.
Always: the broker does not start without keys, issuer and audience. Reading never blocks the event
loop once the broker runs. If keys cannot be read again, the ones before stay. A token with an
unknown key causes at most one more read per minute.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from barnabas.broker.security.mechanisms import MechanismOptions
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.security.sasl.mechanism import SaslIdentity
from barnabas.security.sasl.oauthbearer import ValidateToken

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.security.sasl.jwt_validation import JwtKey, TokenRules

READ_TIMEOUT_S = 5.0
AGAIN_MS_MIN = 60_000
UNKNOWN_MAX = 16
_OPTION = "sasl.oauthbearer.jwks.endpoint.url"


class Jwks:
    """The keys of one listener's provider."""

    def __init__(self, broker: "Broker", url: str, refresh_ms: int, rules: "TokenRules") -> None:
        from barnabas.security.sasl.jwt_validation import read_jwks

        self._broker = broker
        self._url = url
        self._refresh_s = refresh_ms / 1000
        self._rules = rules
        self._read_jwks = read_jwks
        self._keys: dict[str, JwtKey] = self._load()
        self._read_at = broker.clock.monotonic_ms()
        self._unknown: dict[str, None] = {}  # keys that were looked for in vain
        self._reading: asyncio.Task[None] | None = None
        self._timer = broker.loop.call_later(self._refresh_s, self._refresh)

    def validate(self, token: str) -> SaslIdentity:
        from barnabas.security.sasl.jwt_validation import UnknownKey, validate_token

        try:
            return validate_token(token, self._keys, self._rules, self._broker.clock.wall_ms())
        except UnknownKey as unknown:
            self._missing(unknown.kid)
            raise

    def close(self) -> None:
        self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()

    def _missing(self, kid: str) -> None:
        """The provider may have a new key: the client's next login may find it."""
        now_ms = self._broker.clock.monotonic_ms()
        if now_ms - self._read_at < AGAIN_MS_MIN or kid in self._unknown:
            return
        if len(self._unknown) >= UNKNOWN_MAX:
            self._unknown.pop(next(iter(self._unknown)))
        self._unknown[kid] = None
        self._refresh()

    def _refresh(self) -> None:
        self._timer.cancel()
        self._timer = self._broker.loop.call_later(self._refresh_s, self._refresh)
        if self._reading is None or self._reading.done():
            self._read_at = self._broker.clock.monotonic_ms()
            self._reading = self._broker.loop.create_task(self._read())

    async def _read(self) -> None:
        try:
            self._keys = await self._broker.loop.run_in_executor(None, self._load)
        except KafkaError as problem:
            self._broker.log.warning("keys of the identity provider not read", reason=str(problem))
        else:
            self._unknown.clear()

    def _load(self) -> "dict[str, JwtKey]":
        try:
            return self._read_jwks(_content(self._url))
        except (OSError, ValueError) as problem:
            raise Failed(Code.INVALID_CONFIG, f"{_OPTION} = {self._url[:300]}: {problem}") from None


def token_validation(
    broker: "Broker", made: list[Jwks]
) -> Callable[[MechanismOptions], ValidateToken]:
    """Makes the check of tokens for a listener; what it made is closed with the broker."""

    def make(options: MechanismOptions) -> ValidateToken:
        try:
            from barnabas.security.sasl.jwt_validation import TokenRules
        except ModuleNotFoundError as missing:
            raise invalid(
                f"OAUTHBEARER requires {missing.name}: pip install 'barnabas[oauth]'"
            ) from None
        url, issuer, audiences = (
            options.of(f"sasl.oauthbearer.{name}", "OAUTHBEARER")
            for name in ("jwks.endpoint.url", "expected.issuer", "expected.audience")
        )
        required = {
            "jwks.endpoint.url": url,
            "expected.issuer": issuer,
            "expected.audience": audiences,
        }
        for name, value in required.items():
            if not value:
                raise invalid(
                    f"listener {options.listener}: OAUTHBEARER requires sasl.oauthbearer.{name}:"
                    " without it, anybody could make a token"
                )
        assert isinstance(url, str)
        assert isinstance(issuer, str)
        assert isinstance(audiences, tuple)
        _check_url(url)
        config = broker.config
        rules = TokenRules(
            issuer,
            frozenset(audiences),
            config.sasl_oauthbearer_clock_skew_seconds,
            config.sasl_oauthbearer_sub_claim_name,
            config.sasl_oauthbearer_scope_claim_name,
        )
        keys = Jwks(broker, url, config.sasl_oauthbearer_jwks_endpoint_refresh_ms, rules)
        made.append(keys)
        return keys.validate

    return make


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return
    if parts.scheme == "https" and parts.hostname and "@" not in parts.netloc:
        return
    raise invalid(f"broker option {_OPTION} = {url[:300]!r}: expected file:///PATH or https://...")


def _content(url: str) -> bytes:
    """Blocks: at start, or on a thread."""
    from barnabas.security.sasl.jwt_validation import JWKS_LENGTH_MAX

    parts = urlsplit(url)
    if parts.scheme == "file":
        with open(unquote(parts.path), "rb") as file:
            return file.read(JWKS_LENGTH_MAX + 1)
    from http.client import HTTPException, HTTPSConnection

    # No redirects: they could lead anywhere.
    connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=READ_TIMEOUT_S)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"answered with HTTP {response.status}")
        return response.read(JWKS_LENGTH_MAX + 1)
    except HTTPException as problem:
        raise ValueError(f"no answer in HTTP: {problem!r:.100}") from None
    finally:
        connection.close()
