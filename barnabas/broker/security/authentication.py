"""The logins of one listener: from the first frame of a connection until it may send requests.

In: frames of connections that have not logged in, or that log in again. Out: their replies;
connections with a principal and the context of the listener, or closed ones.
Always: a connection has a context of its own until it has logged in: small frames, little memory,
no handler within reach. A failed login is answered and closed after a delay, during which nothing
more is read, and no other connection waits. Logins in progress are bounded in number and in time.
Not here: which request is legal when (security/sasl/login.py), credentials (credentials.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas.broker.net.buffers import Buffers
from barnabas.broker.net.connection import Connection
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.listener_context import ListenerContext, Parts
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ports import Clock
from barnabas.security.principal import USER, Principal
from barnabas.security.sasl.login import (
    HANDSHAKE,
    AnswerVersions,
    EnabledMechanism,
    Login,
    LoginContinues,
    LoginSucceeded,
    SaslSession,
)

LOGINS_MAX = 1_000  # connections of one listener that have not logged in
LOGIN_S_MAX = 30.0
BUFFERS_BYTES_MAX = 16 * 1024 * 1024  # for frames of all logins of a listener
_FRAME_SIZE_MIN = 0  # a token without a header may have any length

Dispatch = Callable[[Connection, memoryview], "Parts | DeferredReply[Parts] | None"]


class AuthenticationContext(Protocol):
    """What logins need of the broker."""

    clock: Clock
    loop: asyncio.AbstractEventLoop

    def login_failed(self, connection: Connection, error: KafkaError, mechanism: str) -> None: ...

    def logged_in(self, connection: Connection, mechanism: str) -> None: ...


class Authentication:
    """`context` is for new connections of the listener; `normal` for those that have logged in."""

    def __init__(
        self,
        broker: AuthenticationContext,
        normal: ListenerContext,
        mechanisms: Mapping[str, EnabledMechanism],
        frame_size_max: int,
        failed_delay_ms: int,
    ) -> None:
        self._broker = broker
        self._normal = normal
        self._mechanisms = mechanisms
        self._failed_delay_s = failed_delay_ms / 1000
        self.context = normal.with_dispatch(
            self._received,
            self._closed,
            Buffers(BUFFERS_BYTES_MAX),
            min(frame_size_max, normal.frame_size_max),
            _FRAME_SIZE_MIN,
        )
        self._expiring = normal.with_dispatch(self._in_session)
        self.contexts = (self.context, self._expiring)
        """All contexts made here: the broker sets their time."""
        self._began: dict[Connection, float] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def began(self, connection: Connection) -> None:
        """A connection was accepted, or begins to log in again."""
        self._began[connection] = self._broker.loop.time()
        if len(self._began) > LOGINS_MAX:
            next(iter(self._began)).close(f"more than {LOGINS_MAX} connections are logging in")
        if self._timer is None:
            self._timer = self._broker.loop.call_later(LOGIN_S_MAX, self._late)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Logins

    def _received(
        self, connection: Connection, frame: memoryview
    ) -> Parts | DeferredReply[Parts] | None:
        login = connection.login
        if login is None:
            login = connection.login = Login(self._mechanisms)
        clock = self._broker.clock
        effect = login.received(frame, clock.monotonic_ms(), clock.wall_ms())
        if isinstance(effect, AnswerVersions):
            parts = self._normal.dispatch(connection, frame)
            assert isinstance(parts, list), "ApiVersions is answered at once"
            # After size and correlation id: the error code.
            login.versions_answered(bytes(parts[0][8:10]) == b"\0\0")  # type: ignore[index]
            return parts
        if isinstance(effect, LoginContinues):
            return effect.reply
        if isinstance(effect, LoginSucceeded):
            self._succeeded(connection, effect.session)
            return effect.reply
        return self._failed(connection, login, effect.reply, effect.reason)

    def _succeeded(self, connection: Connection, session: SaslSession) -> None:
        self._began.pop(connection, None)
        connection.principal = Principal(USER, session.identity.user)
        connection.login = session
        connection.enter(self._normal if session.expires_at is None else self._expiring)
        self._broker.logged_in(connection, session.mechanism)

    def _failed(
        self, connection: Connection, login: Login, reply: Parts, reason: str
    ) -> DeferredReply[Parts]:
        error = InvalidRequest(Code.SASL_AUTHENTICATION_FAILED, reason)
        self._broker.login_failed(connection, error, login.mechanism)
        connection.hold()  # never released: whatever follows is not read
        deferred: DeferredReply[Parts] = DeferredReply()

        def finish() -> None:
            deferred.set(reply)
            connection.close("")  # it was logged already

        timer = self._broker.loop.call_later(self._failed_delay_s, finish)
        deferred.cancelled = timer.cancel
        return deferred

    # After the login

    def _in_session(
        self, connection: Connection, frame: memoryview
    ) -> Parts | DeferredReply[Parts] | None:
        """A request of a session that expires."""
        session: SaslSession = connection.login
        now_ms = self._broker.clock.monotonic_ms()
        handshake = len(frame) > 1 and (frame[0] << 8) | frame[1] == HANDSHAKE
        if handshake and session.may_authenticate_again(now_ms):
            connection.login = Login(self._mechanisms, session)
            connection.enter(self.context)
            self.began(connection)
            return self._received(connection, frame)
        if session.is_expired(now_ms):
            raise InvalidRequest(
                Code.SASL_AUTHENTICATION_FAILED,
                f"the session of {connection.principal} has expired: the client must log in again",
            )
        return self._normal.dispatch(connection, frame)

    # Ends

    def _closed(self, connection: Connection, reason: str) -> None:
        self._began.pop(connection, None)
        self._normal.closed(connection, reason)

    def _late(self) -> None:
        """Connections that do not log in leave."""
        self._timer = None
        now = self._broker.loop.time()
        for connection, began in list(self._began.items()):
            if now - began < LOGIN_S_MAX:
                self._timer = self._broker.loop.call_later(began + LOGIN_S_MAX - now, self._late)
                return
            connection.close(f"no login within {LOGIN_S_MAX:.0f} s")
