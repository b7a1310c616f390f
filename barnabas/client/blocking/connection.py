"""A blocking connection to one broker: a socket around a session.

Always: no call takes longer than its timeout. Responses are matched to requests in order: a wait
for one also receives those before it. The kernel stops sending a request that was not answered in
time. Threads may share a connection; one of them waits at a time. A connection that sends ahead
(`send_ahead`) belongs to one thread, which polls it and never waits.
"""

import socket
import threading
import time
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import barnabas
from barnabas.client.session import ProtocolSession
from barnabas.client.sockets import (
    SEND_PARTS_MAX,
    ClientSocket,
    QuietSocket,
    abort,
    lost,
    named,
    new_socket,
    numeric,
    peer_of,
    unreached,
    views_of,
)
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, Corrupt, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import drop_sent

if TYPE_CHECKING:
    from ssl import SSLContext

M = TypeVar("M", bound=ProtocolMessage)


class BlockingResponse(Generic[M]):
    """The response to a request. The thread that needs it waits for it."""

    __slots__ = ("_kind", "_timeout_s", "connection", "deadline", "response", "sent_at")

    def __init__(self, connection: "BlockingConnection", kind: type[M], deadline: float) -> None:
        self.connection = connection
        self._kind = kind
        self.sent_at = time.monotonic()
        self._timeout_s = deadline - self.sent_at
        self.deadline = deadline
        self.response: ProtocolMessage | None = None

    def done(self) -> bool:
        return (
            self.response is not None or self.connection.closed or time.monotonic() >= self.deadline
        )

    def read_at(self, at: float) -> None:
        """The broker reads the request at that time, or later."""
        self.deadline = max(self.deadline, at + self._timeout_s)

    def wait(self) -> M:
        if self.response is None:
            self.connection.read_until(self)
        response = self.response
        if not isinstance(response, self._kind):
            raise Corrupt(f"a {type(response).__name__} came for a {self._kind.__name__}")
        return response

    def __await__(self) -> Generator[None, None, M]:
        return self.wait()
        yield  # never reached: a blocking driver does not suspend


def connect(
    address: Address, *, client_id: str, timeout_ms: int, tls: "SSLContext | None" = None
) -> "BlockingConnection":
    """Open, and agree on versions."""
    deadline = time.monotonic() + timeout_ms / 1000
    try:
        plain = _open(address, deadline)
        made: ClientSocket = plain
        if tls is not None:
            from barnabas.client.security.tls import secured_blocking

            made = secured_blocking(plain, tls, address, deadline)
        opened = BlockingConnection(made, address, client_id)
    except OSError as problem:
        raise unreached(address, problem) from None
    try:
        opened.greet(timeout_ms)
    except BaseException:
        opened.close()
        raise
    return opened


def _open(address: Address, deadline: float) -> QuietSocket:
    found = numeric(address)
    if found is not None:
        targets = [found]
    else:
        infos = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        targets = [(info[0], info[4]) for info in infos]
    problem: OSError | None = None
    for family, target in targets:
        made = new_socket(family)
        try:
            made.settimeout(_remaining(deadline))
            made.connect(target)
        except OSError as why:
            made.close()
            problem = why
            continue
        return made
    raise problem or OSError(f"{address.host} has no address")


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("no answer in time")
    return remaining


class BlockingConnection:
    """See client/net.py."""

    def __init__(self, opened: ClientSocket, address: Address, client_id: str) -> None:
        self.address = address
        self.peer = peer_of(opened, address)
        self._socket = opened
        self._session = ProtocolSession(client_id, ("barnabas", barnabas.__version__))
        self._pending: deque[BlockingResponse[Any]] = deque()
        self._problem: KafkaError | None = None
        self._silent_ms = 0  # when it was closed
        self._read_at = 0.0  # over a quota: the broker reads nothing before
        self._ahead = False
        self._unsent: list[memoryview] = []  # sent ahead, and the socket has not taken it yet
        self.queued = 0  # bytes sent ahead so far
        self.left = 0  # of these, bytes that the socket took
        self._lock = threading.RLock()

    @property
    def closed(self) -> bool:
        return self._problem is not None

    def silent_ms(self) -> int:
        if self.closed:
            return self._silent_ms
        try:
            since = max(self._pending[0].sent_at, self._read_at)
            return max(0, int((time.monotonic() - since) * 1000))
        except IndexError:  # another thread may have taken in the last answer
            return 0

    def greet(self, timeout_ms: int) -> None:
        deadline = time.monotonic() + timeout_ms / 1000
        parts: list[Any] | None = self._session.greeting()
        while parts is not None:
            answer = self._expect(ProtocolMessage, deadline)
            self._write(parts, deadline)
            parts = self._session.greeted(answer.wait())

    def version_of(self, api_key: int, version_max: int | None = None) -> int:
        return self._session.version_of(api_key, version_max)

    def feature(self, name: str) -> int:
        return self._session.feature(name)

    def send(
        self,
        request: ProtocolMessage,
        answer: type[M],
        *,
        timeout_ms: int,
        version_max: int | None = None,
    ) -> BlockingResponse[M]:
        deadline = time.monotonic() + timeout_ms / 1000
        with self._lock:
            self._check_open()
            parts = self._session.request(request, version_max=version_max)
            waiting = self._expect(answer, deadline)
            self._write(parts, deadline)
        return waiting

    def send_one_way(
        self, request: ProtocolMessage, *, timeout_ms: int, version_max: int | None = None
    ) -> None:
        deadline = time.monotonic() + timeout_ms / 1000
        with self._lock:
            self._check_open()
            parts = self._session.request(request, version_max=version_max, answered=False)
            self._write(parts, deadline)

    async def call(
        self,
        request: ProtocolMessage,
        answer: type[M],
        *,
        timeout_ms: int,
        version_max: int | None = None,
    ) -> M:
        return self.send(request, answer, timeout_ms=timeout_ms, version_max=version_max).wait()

    def send_ahead(self) -> None:
        """From now on `send` and `send_one_way` do not wait; `push` sends what is left."""
        self._ahead = True
        self._socket.settimeout(0)

    @property
    def unsent(self) -> bool:
        """Whether select() should ask if more can be sent."""
        return bool(self._unsent)

    def push(self) -> None:
        """Send what the socket takes now."""
        try:
            while self._unsent:
                parts = self._unsent[:SEND_PARTS_MAX]
                count = self._socket.sendmsg(parts)
                self.left += count
                drop_sent(self._unsent, count)
                if count < sum(map(len, parts)):
                    return  # it is full
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as problem:
            raise self._end(lost(self.address, problem)) from None

    def time_out(self) -> KafkaError:
        """Close it, because an answer did not come in time."""
        return self._end(lost(self.address, TimeoutError()))

    def close(self) -> None:
        self._end(Retriable(Code.NETWORK_EXCEPTION, f"{self.address}: the connection was closed"))

    def fileno(self) -> int:
        """For select(): there is something to read, or the end."""
        return self._socket.fileno()

    def read_some(self) -> None:
        """Read the bytes that have arrived; errors are raised to callers that await responses."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is reading
        try:
            if not self._pending or self.closed:
                return
            self._receive(time.monotonic() + _GLANCE_S)
        except KafkaError:
            pass
        finally:
            self._lock.release()

    @property
    def problem(self) -> KafkaError | None:
        """Why it is closed."""
        return self._problem

    def take_in(self) -> None:
        """Read once what has come to a connection that sends ahead."""
        with self._lock:
            self._check_open()
            self._receive()

    def read_until(self, answer: BlockingResponse[Any]) -> None:
        """Take answers in until this one has come."""
        with self._lock:
            while answer.response is None:
                self._check_open()
                self._receive(answer.deadline)

    def _receive(self, deadline: float | None = None) -> None:
        """Read once: what comes until the deadline, or what has come by now."""
        try:
            if deadline is not None:
                self._socket.settimeout(_remaining(deadline))
            try:
                count = self._socket.recv_into(self._session.room())
            except (BlockingIOError, InterruptedError):
                if deadline is not None:
                    raise
                return
            if count == 0:
                raise ConnectionResetError("the broker closed the connection")
            while count:
                for response in self._session.received(count):
                    self._pending.popleft().response = response
                    wait_ms = getattr(response, "throttle_time_ms", 0)
                    if wait_ms > 0:
                        self._throttled(wait_ms / 1000)
                count = self._socket.read_decrypted(self._session.room())
        except OSError as problem:
            raise self._end(lost(self.address, problem)) from None
        except KafkaError as problem:
            # What follows in the stream can no longer be trusted.
            raise self._end(
                named(self.address, problem, greeted=self._session.versions_known)
            ) from None

    def _expect(self, answer: type[M], deadline: float) -> BlockingResponse[M]:
        waiting = BlockingResponse(self, answer, deadline)
        waiting.read_at(self._read_at)
        self._pending.append(waiting)
        return waiting

    def _throttled(self, wait_s: float) -> None:
        """This client is over a quota (KIP-219): requests get that much more time."""
        self._read_at = max(self._read_at, time.monotonic() + wait_s)
        for waiting in self._pending:
            waiting.read_at(self._read_at)

    def _write(self, parts: list[Any], deadline: float) -> None:
        rest = views_of(parts)
        if self._ahead:
            self.queued += sum(map(len, rest))
            idle = not self._unsent
            self._unsent += rest
            if idle:
                self.push()
            return
        try:
            while rest:
                self._socket.settimeout(_remaining(deadline))
                drop_sent(rest, self._socket.sendmsg(rest[:SEND_PARTS_MAX]))
        except OSError as problem:
            raise self._end(lost(self.address, problem)) from None

    def _check_open(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _end(self, problem: KafkaError) -> KafkaError:
        if self._problem is None:
            timed_out = problem.code is Code.REQUEST_TIMED_OUT
            if timed_out:
                self._silent_ms = self.silent_ms()
            self._problem = problem
            if timed_out:
                abort(self._socket)
            else:
                self._socket.close()
            self._pending.clear()
            self._unsent.clear()
        return problem


_GLANCE_S = 1  # select() said that there is something to read
