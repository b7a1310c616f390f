"""Requests from this broker to others of its cluster, and to itself.

In: a broker's id and a request. Out: its response, or a Retriable that says why there is none.
Always: requests of one lane reach a broker in the order in which they were sent and are answered
in that order. A request without a response in time ends its connection, because the other side may
have failed silently; except in the lane where responses may take long. No request is sent twice.
Not here: retries (the caller knows whether it may retry), the contents of requests.

Brokers of a cluster run the same code, so they need no ApiVersions.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Literal

from barnabas.broker.cluster_member import PEER
from barnabas.broker.net.buffers import Pages
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import BrokerId
from barnabas.model.ports import Stream
from barnabas.system.logs import Logger
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import drop_sent
from barnabas.wire.session import Exchange

if TYPE_CHECKING:
    from barnabas.security.sasl.client_login import SaslLogin

Lane = Literal["control", "data", "forward", "markers", "share", "verification"]
"""One connection each: a wait on one (a long poll, a topic creation, a marker or the state of a
share group that is not committed yet) delays no other."""

RENEWED_AFTER = 0.85  # of the time for which a login is valid
LOGIN_MS_MAX = 10_000
NONCE_BYTES = 24
BACKOFF_MS_MIN = 20
BACKOFF_MS_MAX = 1_000
_READS_MAX = 4  # in one turn of the loop
_PARTS_MAX = 64  # in one call to send

Answer = Callable[[ProtocolMessage, int], Awaitable[ProtocolMessage]]
"""This broker's response to a request of such a version."""


class Peers:
    """The connections to other brokers that this one calls."""

    def __init__(
        self,
        own: BrokerId,
        connect: Callable[[str, int], Awaitable[Stream]],
        log: Logger,
        answer: Answer,
        client_id: str | None = None,
    ) -> None:
        self.own = own
        self._client_id = client_id
        self._connect = connect
        self._log = log
        self._answer = answer
        self._addresses: dict[BrokerId, Address] = {}
        self._links: dict[tuple[BrokerId, Lane], _Link] = {}
        self.pages = Pages()
        self.login: SaslLogin | None = None
        """With what this broker logs in to others; None: their listener has no login."""

    @property
    def client_id(self) -> str:
        return f"{PEER}{self.own}" if self._client_id is None else self._client_id

    def known(self, brokers: Mapping[BrokerId, Address]) -> None:
        """All live brokers; connections to others, or to old addresses, are closed."""
        self._addresses = dict(brokers)
        for (broker, lane), link in list(self._links.items()):
            if self._addresses.get(broker) != link.address:
                del self._links[broker, lane]
                link.close("it has left the cluster, or moved")

    async def call(
        self,
        broker: BrokerId,
        request: ProtocolMessage,
        *,
        lane: Lane = "control",
        timeout_ms: int,
        version: int | None = None,
    ) -> ProtocolMessage:
        """Its response, in the newest version by default. Retriable if there is none in time."""
        if version is None:
            version = APIS[request.api_key].max_version
        if broker == self.own:
            return await self._answer(request, version)
        link = self._links.get((broker, lane))
        if link is None:
            address = self._addresses.get(broker)
            if address is None:
                raise Retriable(Code.BROKER_NOT_AVAILABLE, f"broker {broker} is not in the cluster")
            link = self._links[broker, lane] = _Link(broker, address, self, lane)
        return await link.call(request, version, timeout_ms)

    def close(self) -> None:
        links, self._links = self._links, {}
        self._addresses = {}
        for link in links.values():
            link.close("this broker is stopping")

    # For links

    async def open(self, address: Address) -> Stream:
        return await self._connect(address.host, address.port)

    def lost(self, broker: BrokerId, address: Address, reason: str) -> None:
        self._log.warning("broker lost", broker=broker, address=str(address), reason=reason)


class _Link:
    """One connection to one broker, opened when needed and again when lost."""

    def __init__(self, broker: BrokerId, address: Address, peers: Peers, lane: Lane) -> None:
        self.address = address
        self.patient = lane == "forward"
        self._broker = broker
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._open: _Open | None = None
        self._opening: asyncio.Task[_Open] | None = None
        self._backoff_ms = 0
        self._not_before = 0.0
        self._loss_logged = False
        self._closed = ""

    async def call(
        self, request: ProtocolMessage, version: int, timeout_ms: int
    ) -> ProtocolMessage:
        if self._open is not None and self._open.is_due():
            self._open.end(Code.NETWORK_EXCEPTION, "its login ends soon")
        if self._open is not None:
            return await self._open.send(request, version, timeout_ms)
        began = self._loop.time()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                opened = await self._opened()
        except TimeoutError:
            raise self.problem(Code.REQUEST_TIMED_OUT, "no connection in time") from None
        left_ms = timeout_ms - round((self._loop.time() - began) * 1000)
        return await opened.send(request, version, max(1, left_ms))

    async def _opened(self) -> "_Open":
        """Callers share one attempt; a caller that is cancelled does not end it for the others."""
        if self._opening is None:
            self._opening = self._loop.create_task(self._connect())
            self._opening.add_done_callback(self._tried)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():  # by `close`; the caller itself was not cancelled
                raise self.problem(Code.NETWORK_EXCEPTION, self._closed) from None
            raise

    async def _connect(self) -> "_Open":
        wait = self._not_before - self._loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        try:
            stream = await self._peers.open(self.address)
        except OSError as why:
            self._back_off()
            reason = os.strerror(why.errno) if why.errno else str(why)
            self._log_loss(reason)
            raise self.problem(Code.NETWORK_EXCEPTION, reason) from None
        opened = _Open(stream, self)
        if self._peers.login is not None:
            await self._log_in(opened, self._peers.login)
        self._open = opened
        return opened

    async def _log_in(self, opened: "_Open", login: "SaslLogin") -> None:
        """Other requests wait until it is done. A wrong password is retried: it may be changed."""
        from barnabas.security.sasl.client_login import ClientLogin

        steps = ClientLogin(login, token_urlsafe(NONCE_BYTES))
        request: ProtocolMessage | None = steps.first()
        try:
            while request is not None:
                version = APIS[request.api_key].max_version
                request = steps.next(await opened.send(request, version, LOGIN_MS_MAX))
        except KafkaError as error:
            reason = f"login as {login.user!r} failed: {error.detail}"
            opened.end(error.code, reason)
            self._back_off()
            self._log_loss(reason)
            raise self.problem(error.code, reason) from None
        except BaseException:
            opened.end(Code.NETWORK_EXCEPTION, "the login was cancelled")
            raise
        if steps.lifetime_ms:
            opened.renew_at = self._loop.time() + steps.lifetime_ms * RENEWED_AFTER / 1000

    def _tried(self, task: "asyncio.Task[_Open]") -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # retrieved, because there may be no caller that waits

    def _back_off(self) -> None:
        self._backoff_ms = min(BACKOFF_MS_MAX, max(BACKOFF_MS_MIN, 2 * self._backoff_ms))
        self._not_before = self._loop.time() + self._backoff_ms / 1000

    def _log_loss(self, reason: str) -> None:
        if not self._loss_logged:
            self._loss_logged = True
            self._peers.lost(self._broker, self.address, reason)

    # For the open connection

    @property
    def client_id(self) -> str:
        return self._peers.client_id

    @property
    def pages(self) -> Pages:
        return self._peers.pages

    def answered(self) -> None:
        self._backoff_ms = 0
        self._loss_logged = False

    def ended(self, reason: str, missed: bool) -> None:
        """`missed`: a request waited for a response, or the connection was reset; else the other
        side may have closed it as idle."""
        self._open = None
        if missed and not self._closed:
            self._back_off()
            self._log_loss(reason)

    def problem(self, code: Code, reason: str) -> KafkaError:
        return Retriable(code, f"broker {self._broker} at {self.address}: {self._closed or reason}")

    def close(self, reason: str) -> None:
        self._closed = reason
        if self._opening is not None:
            self._opening.cancel()
        if self._open is not None:
            self._open.end(Code.NETWORK_EXCEPTION, reason)


class _Open:
    """An open connection."""

    def __init__(self, stream: Stream, link: _Link) -> None:
        self._stream = stream
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._exchange = Exchange(link.client_id, memory=link.pages.take)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._unsent: list[memoryview] = []
        self._failed: KafkaError | None = None
        self.renew_at = 0.0  # when another connection should replace this one; 0: never
        stream.watch_readable(self._readable)

    def is_due(self) -> bool:
        """Whether its login ends soon, and no request waits on it."""
        return 0 < self.renew_at <= self._loop.time() and not self._waiting

    async def send(
        self, request: ProtocolMessage, version: int, timeout_ms: int
    ) -> ProtocolMessage:
        if self._failed is not None:
            raise self._failed
        parts: list[Any] = self._exchange.frame(request, version)
        future: asyncio.Future[ProtocolMessage] = self._loop.create_future()
        self._waiting.append(future)
        busy = bool(self._unsent)
        self._unsent += map(memoryview, parts)
        if not busy:
            self._writable()
        timer = self._loop.call_later(
            timeout_ms / 1000, self._late, future, f"no answer to {type(request).__name__} in time"
        )
        try:
            return await future
        finally:
            timer.cancel()

    def end(self, code: Code, reason: str) -> None:
        if self._failed is not None:
            return
        self._failed = problem = self._link.problem(code, reason)
        self._stream.close()
        self._unsent.clear()
        waiting = [future for future in self._waiting if not future.done()]
        self._waiting.clear()
        self._link.ended(reason, bool(waiting or self._stream.failure))
        for future in waiting:
            future.set_exception(problem)

    def _late(self, future: "asyncio.Future[Any]", reason: str) -> None:
        if future.done():
            return
        if self._link.patient:  # it may be behind one that may take longer, and should
            future.set_exception(self._link.problem(Code.REQUEST_TIMED_OUT, reason))
        else:
            self.end(Code.REQUEST_TIMED_OUT, reason)

    def _readable(self) -> None:
        try:
            for _ in range(_READS_MAX):
                room = self._exchange.room()
                count = self._stream.receive_into(room)
                if count < 0:
                    return
                if count == 0:
                    failure = self._stream.failure
                    self.end(Code.NETWORK_EXCEPTION, failure or "it closed the connection")
                    return
                for response in self._exchange.received(count):
                    future = self._waiting.popleft()
                    self._link.answered()
                    if not future.done():
                        future.set_result(response)
                if count < len(room) or self._failed is not None:
                    return
        except KafkaError as problem:
            self.end(problem.code, problem.detail)

    def _writable(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                count = self._stream.send(unsent[:_PARTS_MAX])
                if not count:
                    self._stream.watch_writable(self._writable)
                    return
                drop_sent(unsent, count)
        except OSError as why:
            self.end(Code.NETWORK_EXCEPTION, why.strerror or str(why))
            return
        self._stream.watch_writable(None)
