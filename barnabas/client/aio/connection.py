"""An asyncio connection to one broker: a watched socket around a session.

Always: responses are matched to requests in order. A request that waits longer than its timeout
closes the connection, because later responses could not be matched any more, and the kernel stops
sending it. The loop does not keep a connection alive, and a connection that is dropped without a
close gives no warning.
Why sockets and not transports: docs/adr/0002.
"""

import asyncio
import socket
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import barnabas
from barnabas.client.owner_process import OwnerProcess
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
_READS_MAX = 4  # in one turn of the loop


class _Pending:
    __slots__ = ("answer", "deadline", "future", "sent_at", "timeout_s")

    def __init__(
        self,
        future: "asyncio.Future[Any]",
        answer: type[ProtocolMessage],
        sent_at: float,
        timeout_s: float,
        deadline: float,
    ) -> None:
        self.future = future
        self.answer = answer
        self.sent_at = sent_at
        self.timeout_s = timeout_s
        self.deadline = deadline


class _Sent(NamedTuple):
    """A request without an answer that has not left yet."""

    future: "asyncio.Future[None]"
    end: int  # where it ends in all that is written
    deadline: float


async def connect(
    address: Address, *, client_id: str, timeout_ms: int, tls: "SSLContext | None" = None
) -> "AsyncioConnection":
    """Open, and agree on versions."""
    loop = asyncio.get_running_loop()
    opened: AsyncioConnection | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            plain = await _open(loop, address)
            made: ClientSocket = plain
            if tls is not None:
                from barnabas.client.security.tls import secured

                made = await secured(loop, plain, tls, address)
            opened = AsyncioConnection(loop, made, address, client_id)
            try:
                await opened.greet(timeout_ms)
            except BaseException:
                opened.close()
                raise
    except OSError as problem:  # a TimeoutError is one
        error = unreached if opened is None else lost
        raise error(address, problem) from None
    return opened


async def _open(loop: asyncio.AbstractEventLoop, address: Address) -> QuietSocket:
    found = numeric(address)
    if found is not None:
        targets = [found]
    else:
        infos = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        targets = [(info[0], info[4]) for info in infos]
    problem: OSError | None = None
    for family, target in targets:
        made = new_socket(family)
        made.setblocking(False)
        try:
            await loop.sock_connect(made, target)
        except OSError as why:
            made.close()
            problem = why
            continue
        except BaseException:
            made.close()
            raise
        return made
    raise problem or OSError(f"{address.host} has no address")


class AsyncioConnection:
    """See client/net.py."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        opened: ClientSocket,
        address: Address,
        client_id: str,
    ) -> None:
        self.address = address
        self.peer = peer_of(opened, address)
        self._loop = loop
        self._owner = OwnerProcess()
        self._socket = opened
        self._session = ProtocolSession(client_id, ("barnabas", barnabas.__version__))
        self._pending: deque[_Pending] = deque()
        self._unsent: list[memoryview] = []
        self._queued = 0  # bytes given to `_write` so far
        self._left = 0  # of these, bytes that the socket took
        self._sent: deque[_Sent] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._problem: KafkaError | None = None
        self._silent_ms = 0  # when it was closed
        self._read_at = 0.0  # over a quota: the broker reads nothing before
        loop.add_reader(opened.fileno(), _weakly(self._readable))
        self._forgotten = weakref.finalize(self, _let_go, loop, opened, self._owner)
        self._forgotten.atexit = False

    @property
    def closed(self) -> bool:
        return self._problem is not None

    def silent_ms(self) -> int:
        if not self._pending:
            return self._silent_ms
        since = max(self._pending[0].sent_at, self._read_at)
        return max(0, int((self._loop.time() - since) * 1000))

    async def greet(self, timeout_ms: int) -> None:
        parts: list[Any] | None = self._session.greeting()
        while parts is not None:
            waiting = self._expect(ProtocolMessage, timeout_ms)
            self._write(parts)
            parts = self._session.greeted(await waiting)

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
    ) -> "asyncio.Future[M]":
        if self._problem is not None:
            raise self._problem
        parts = self._session.request(request, version_max=version_max)
        waiting = self._expect(answer, timeout_ms)
        self._write(parts)
        return waiting

    def send_one_way(
        self, request: ProtocolMessage, *, timeout_ms: int, version_max: int | None = None
    ) -> "asyncio.Future[None] | None":
        if self._problem is not None:
            raise self._problem
        self._write(self._session.request(request, version_max=version_max, answered=False))
        if self._problem is not None:
            raise self._problem
        if not self._unsent:
            return None
        deadline = self._loop.time() + timeout_ms / 1000
        sent = _Sent(self._loop.create_future(), self._queued, deadline)
        self._sent.append(sent)
        self._watch(deadline)
        return sent.future

    async def call(
        self,
        request: ProtocolMessage,
        answer: type[M],
        *,
        timeout_ms: int,
        version_max: int | None = None,
    ) -> M:
        return await self.send(request, answer, timeout_ms=timeout_ms, version_max=version_max)

    def close(self) -> None:
        self._end(Retriable(Code.NETWORK_EXCEPTION, f"{self.address}: the connection was closed"))

    # --- what the loop calls ---

    def _readable(self) -> None:
        try:
            for _ in range(_READS_MAX):
                room = self._session.room()
                count = self._socket.recv_into(room)
                if count == 0:
                    raise ConnectionResetError("the broker closed the connection")
                for response in self._session.received(count):
                    self._answered(response)
                if count < len(room) or self._problem is not None:
                    return
            if self._socket.buffered:
                self._loop.call_soon(_weakly(self._readable))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self._end(lost(self.address, problem))
        except KafkaError as problem:
            self._end(named(self.address, problem, greeted=self._session.versions_known))

    def _writable(self) -> None:
        try:
            while self._unsent:
                self._push(self._unsent)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as problem:
            self._end(lost(self.address, problem))
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())
        while self._sent and self._sent[0].end <= self._left:
            future = self._sent.popleft().future
            if not future.done():
                future.set_result(None)

    def _late(self) -> None:
        self._timer = None
        now = self._loop.time()
        deadlines = [pending.deadline for pending in self._pending]
        deadlines += [sent.deadline for sent in self._sent]
        if not deadlines:
            return
        deadline = min(deadlines)
        if deadline <= now:
            self._silent_ms = self.silent_ms()
            self._end(Retriable(Code.REQUEST_TIMED_OUT, f"{self.address}: no answer in time"))
        else:
            self._watch(deadline)

    # --- the two directions ---

    def _expect(self, answer: type[M], timeout_ms: int) -> "asyncio.Future[M]":
        waiting: asyncio.Future[M] = self._loop.create_future()
        now = self._loop.time()
        timeout_s = timeout_ms / 1000
        deadline = max(now, self._read_at) + timeout_s
        self._pending.append(_Pending(waiting, answer, now, timeout_s, deadline))
        self._watch(deadline)
        return waiting

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, _weakly(self._late))

    def _answered(self, response: ProtocolMessage) -> None:
        pending = self._pending.popleft()
        if not isinstance(response, pending.answer):
            raise Corrupt(f"a {type(response).__name__} came for a {pending.answer.__name__}")
        wait_ms = getattr(response, "throttle_time_ms", 0)
        if wait_ms > 0:
            self._throttled(wait_ms / 1000)
        if not pending.future.done():
            pending.future.set_result(response)

    def _throttled(self, wait_s: float) -> None:
        """This client is over a quota (KIP-219): requests get that much more time."""
        self._read_at = max(self._read_at, self._loop.time() + wait_s)
        for pending in self._pending:
            pending.deadline = max(pending.deadline, self._read_at + pending.timeout_s)

    def _write(self, parts: list[Any]) -> None:
        rest = views_of(parts)
        self._queued += sum(map(len, rest))
        if self._unsent:
            self._unsent += rest
            return
        try:
            while rest:
                self._push(rest)
        except (BlockingIOError, InterruptedError):
            self._unsent = rest
            self._loop.add_writer(self._socket.fileno(), _weakly(self._writable))
        except OSError as problem:
            self._end(lost(self.address, problem))

    def _push(self, rest: list[memoryview]) -> None:
        count = self._socket.sendmsg(rest[:SEND_PARTS_MAX])
        self._left += count
        drop_sent(rest, count)

    def _end(self, problem: KafkaError) -> None:
        if self._problem is not None:
            return
        self._problem = problem
        self._forgotten.detach()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # A forked child shares what the loop of its parent watches: it must not change that.
        if not self._loop.is_closed() and self._owner.is_here():
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
        if problem.code is Code.REQUEST_TIMED_OUT and self._owner.is_here():
            abort(self._socket)
        else:
            self._socket.close()
        self._unsent.clear()
        futures: list[asyncio.Future[Any]] = [pending.future for pending in self._pending]
        futures += [sent.future for sent in self._sent]
        self._pending.clear()
        self._sent.clear()
        for future in futures:
            if not future.done() and not self._loop.is_closed() and self._owner.is_here():
                future.set_exception(problem)
                future.exception()  # a caller that gave up waiting needs no warning


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """The same for the loop to call, as long as other code holds its object."""
    held = weakref.WeakMethod(method)

    def call() -> None:
        there = held()
        if there is not None:
            there()

    return call


def _let_go(loop: asyncio.AbstractEventLoop, opened: ClientSocket, owner: OwnerProcess) -> None:
    """Of a connection that is no longer referenced: called on the thread that finds this out."""
    if loop.is_closed() or not owner.is_here():
        opened.close()
    else:
        loop.call_soon_threadsafe(_unwatch, loop, opened)


def _unwatch(loop: asyncio.AbstractEventLoop, opened: ClientSocket) -> None:
    # Before its number is used again.
    loop.remove_reader(opened.fileno())
    loop.remove_writer(opened.fileno())
    opened.close()
