"""The broker's side of a login: which request is legal when, and the reply to each.

    VERSIONS ──ApiVersions──> HANDSHAKE ──SaslHandshake──> TOKENS ──last token──> DONE
        └────────────────SaslHandshake────────────────────────^

    any ──anything else──> FAILED        a re-authentication begins at HANDSHAKE

In: whole frames of one connection, and the time. Out: what to reply, and whether the connection
is logged in or must be closed.
Always: before DONE no other request is looked at, not even decoded; after FAILED nothing is. A
client learns the same about each failure, whatever its cause.
Not here: the mechanisms, when the reply to a failure is sent (the broker waits first).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Any, NamedTuple

from barnabas.model.errors import Code, KafkaError
from barnabas.model.ports import Buffer
from barnabas.security.sasl.mechanism import LoginFailed, SaslIdentity, ServerExchange
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.frames import RequestHeader, read_request_header, response_parts
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeResponse

HANDSHAKE, AUTHENTICATE = 17, 36
FRAMES_MAX = 16  # the longest login has five: two ApiVersions, a handshake, two or three tokens
REAUTHENTICATION_MS_MIN = 1_000
_SIZE = Struct(">i")

Parts = list[Any]


class LoginState(Enum):
    VERSIONS = "versions"
    """Nothing has been received, or ApiVersions that the broker could not answer."""
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    DONE = "done"
    FAILED = "failed"


class SaslSession(NamedTuple):
    """A login that succeeded. `expires_at`: on the monotonic clock; None: never."""

    mechanism: str
    identity: SaslIdentity
    began_at: int
    expires_at: int | None

    def may_authenticate_again(self, now_ms: int) -> bool:
        """As Kafka: only if the session expires, and not again within a second."""
        return self.expires_at is not None and now_ms - self.began_at >= REAUTHENTICATION_MS_MIN

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_at is not None and now_ms > self.expires_at


@dataclass(frozen=True, slots=True)
class AnswerVersions:
    """The frame is an ApiVersions request: answer it, and call `versions_answered`."""


@dataclass(frozen=True, slots=True)
class LoginContinues:
    reply: Parts


@dataclass(frozen=True, slots=True)
class LoginSucceeded:
    reply: Parts
    session: SaslSession


@dataclass(frozen=True, slots=True)
class LoginRefused:
    """Close the connection, after this reply if there is one. `reason` is for the log only."""

    reply: Parts
    reason: str


LoginEffect = AnswerVersions | LoginContinues | LoginSucceeded | LoginRefused


class EnabledMechanism(NamedTuple):
    """A mechanism that clients may use. `session_ms_max`: 0 is no limit."""

    begin: Callable[[], ServerExchange]
    session_ms_max: int = 0


class Login:
    """One login on one connection. `previous`: this is a re-authentication."""

    __slots__ = ("_began_at", "_exchange", "_frames", "_raw", "mechanism", "mechanisms", "previous",
                 "state")  # fmt: skip

    def __init__(
        self, mechanisms: Mapping[str, EnabledMechanism], previous: SaslSession | None = None
    ) -> None:
        self.mechanisms = mechanisms
        self.previous = previous
        self.state = LoginState.VERSIONS if previous is None else LoginState.HANDSHAKE
        self.mechanism = ""
        self._exchange: ServerExchange | None = None
        self._raw = False  # tokens come without a header, after a handshake of version 0
        self._frames = 0
        self._began_at = 0

    def received(self, frame: Buffer, now_ms: int, wall_ms: int) -> LoginEffect:
        """The next frame of the connection."""
        assert self.state not in (LoginState.DONE, LoginState.FAILED)
        self._frames += 1
        if self._frames > FRAMES_MAX:
            return self._fail(f"more than {FRAMES_MAX} requests before the login was complete")
        try:
            if self.state is not LoginState.TOKENS:
                return self._before_tokens(frame, now_ms)
            if self._raw:
                return self._raw_token(bytes(frame), now_ms, wall_ms)
            return self._authenticate(frame, now_ms, wall_ms)
        except KafkaError as error:
            return self._fail(f"malformed request during the login: {error.detail}")

    def versions_answered(self, well: bool) -> None:
        """ApiVersions was answered. Without an error, a handshake must be next."""
        assert self.state is LoginState.VERSIONS
        if well:
            self.state = LoginState.HANDSHAKE

    # Before a mechanism is chosen

    def _before_tokens(self, frame: Buffer, now_ms: int) -> LoginEffect:
        header = read_request_header(frame)
        key = header.api_key
        if key == API_VERSIONS and self.state is LoginState.VERSIONS:
            return AnswerVersions()
        if key != HANDSHAKE:
            return self._fail(f"request {_name(key)} before the login")
        if not _is_supported(header):
            return self._fail(f"SaslHandshake version {header.api_version} is not supported")
        request: Any = APIS[HANDSHAKE].request.decode(
            frame, header.api_version, header.body_position
        )
        return self._handshake(header, request.mechanism, now_ms)

    def _handshake(self, header: RequestHeader, mechanism: str, now_ms: int) -> LoginEffect:
        enabled = self.mechanisms.get(mechanism)
        same = self.previous is None or self.previous.mechanism == mechanism
        code = Code.NONE if enabled is not None and same else Code.UNSUPPORTED_SASL_MECHANISM
        reply = response_parts(
            HANDSHAKE,
            header.api_version,
            header.correlation_id,
            SaslHandshakeResponse(error_code=code, mechanisms=list(self.mechanisms)),
        )
        if enabled is None:
            return self._fail(f"mechanism {mechanism!r:.100} is not enabled", reply)
        if not same:
            return self._fail(f"re-authentication with another mechanism, {mechanism}", reply)
        self.mechanism = mechanism
        self._exchange = enabled.begin()
        self._raw = header.api_version == 0
        self._began_at = now_ms
        self.state = LoginState.TOKENS
        return LoginContinues(reply)

    # Tokens

    def _raw_token(self, token: bytes, now_ms: int, wall_ms: int) -> LoginEffect:
        try:
            reply, session = self._step(token, now_ms, wall_ms)
        except LoginFailed as failure:
            return self._fail(str(failure))  # there is no reply that says so
        parts: Parts = [_SIZE.pack(len(reply)) + reply]
        return LoginContinues(parts) if session is None else LoginSucceeded(parts, session)

    def _authenticate(self, frame: Buffer, now_ms: int, wall_ms: int) -> LoginEffect:
        header = read_request_header(frame)
        if header.api_key != AUTHENTICATE:
            return self._fail(f"request {_name(header.api_key)} before the login")
        if not _is_supported(header):
            return self._fail(f"SaslAuthenticate version {header.api_version} is not supported")
        request: Any = APIS[AUTHENTICATE].request.decode(
            frame, header.api_version, header.body_position
        )
        try:
            reply, session = self._step(bytes(request.auth_bytes), now_ms, wall_ms)
        except LoginFailed as failure:
            what = "authentication" if self.previous is None else "re-authentication"
            response = SaslAuthenticateResponse(
                error_code=Code.SASL_AUTHENTICATION_FAILED,
                error_message=f"Authentication failed during {what} due to invalid credentials"
                f" with SASL mechanism {self.mechanism}",
                auth_bytes=b"",
            )
            return self._fail(str(failure), _framed(header, response))
        lifetime_ms = 0
        if session is not None and session.expires_at is not None:
            lifetime_ms = session.expires_at - now_ms
        response = SaslAuthenticateResponse(
            error_code=0, auth_bytes=reply, session_lifetime_ms=lifetime_ms
        )
        parts = _framed(header, response)
        return LoginContinues(parts) if session is None else LoginSucceeded(parts, session)

    def _step(self, token: bytes, now_ms: int, wall_ms: int) -> tuple[bytes, SaslSession | None]:
        exchange = self._exchange
        assert exchange is not None
        reply = exchange.respond(token)
        identity = exchange.identity
        if identity is None:
            return reply, None
        previous = self.previous
        if previous is not None and previous.identity.user != identity.user:
            raise LoginFailed(
                f"re-authentication of {previous.identity.user!r:.100} as {identity.user!r:.100}"
            )
        limits = []
        if self.mechanisms[self.mechanism].session_ms_max > 0:
            limits.append(self.mechanisms[self.mechanism].session_ms_max)
        if identity.expires_ms is not None:
            limits.append(identity.expires_ms - wall_ms)
        expires_at = now_ms + max(0, min(limits)) if limits else None
        self._exchange = None
        self.state = LoginState.DONE
        return reply, SaslSession(self.mechanism, identity, self._began_at, expires_at)

    def _fail(self, reason: str, reply: Parts | None = None) -> LoginRefused:
        self._exchange = None
        self.state = LoginState.FAILED
        return LoginRefused(reply or [], reason)


def _framed(header: RequestHeader, response: SaslAuthenticateResponse) -> Parts:
    return response_parts(AUTHENTICATE, header.api_version, header.correlation_id, response)


def _is_supported(header: RequestHeader) -> bool:
    api = APIS[header.api_key]
    return api.min_version <= header.api_version <= api.max_version


def _name(key: int) -> str:
    api = APIS.get(key)
    return api.name if api is not None else str(key)
