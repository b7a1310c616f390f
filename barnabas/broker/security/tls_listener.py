"""Accepts connections with TLS: the handshake, and the user of a certificate.

In: streams that a listener accepted. Out: streams that encrypt, with the principal of the client.
Always: handshakes run on a thread of their own, so that many of them do not delay the requests of
others. A handshake that takes longer than HANDSHAKE_S_MAX ends the connection. Memory for TLS is
taken when the first bytes have arrived, and for HANDSHAKES_MAX connections at once: others wait for
room, and clients that owe an answer for longer than OWED_S_MAX must go.
"""

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from barnabas.broker.security.certificates import Certificates
from barnabas.model.ports import Network, Stream
from barnabas.security.certificate import read_certificate
from barnabas.security.principal import ANONYMOUS, USER, Principal
from barnabas.system.tls.contexts import describe
from barnabas.system.tls.stream import TlsStream, connect_tls, receive_some, send_all

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

HANDSHAKE_S_MAX = 10.0
HANDSHAKES_MAX = 2_000  # of one listener, at the same time; each takes 54 KB
OWED_S_MAX = 1.0  # while others wait for room
_READ_SIZE = 16 * 1024
_HANDSHAKE = 22  # the first byte of a TLS connection
_PLAINTEXT = (
    "plain text on a TLS listener: set security.protocol of the client to the protocol of the"
    " listener"
)

_TOO_MANY = "too many TLS handshakes at the same time, and this client did not answer"

Connected = Callable[[Stream, Principal], None]
GaveUp = Callable[[Stream, str], None]


class _Refused(Exception):
    """The connection is closed for this reason."""


class TlsListener:
    """One per listener with TLS."""

    def __init__(
        self,
        broker: "Broker",
        certificates: Certificates,
        thread: Executor,
        connected: Connected,
        gave_up: GaveUp,
    ) -> None:
        """`connected` is called after a handshake, `gave_up` with the reason if there was none."""
        self._broker = broker
        self.certificates = certificates
        self._thread = thread
        self._connected = connected
        self._gave_up = gave_up
        self._handshakes: set[asyncio.Task[None]] = set()
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._room = asyncio.Semaphore(HANDSHAKES_MAX)
        self._owing: dict[asyncio.Task[None], float] = {}  # an answer, since when; in this order

    def accepted(self, stream: Stream) -> None:
        task = self._broker.loop.create_task(self._shake_hands(stream))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    def stop(self) -> None:
        self.certificates.stop()
        for task in tuple(self._handshakes):
            task.cancel()

    async def _shake_hands(self, stream: Stream) -> None:
        reason = ""
        try:
            async with asyncio.timeout(HANDSHAKE_S_MAX):
                encrypted, principal = await self._handshake(stream)
        except TimeoutError:
            reason = f"no complete TLS handshake within {HANDSHAKE_S_MAX:.0f} s"
        except ssl.SSLError as problem:
            reason = f"TLS handshake: {describe(problem)}"
        except _Refused as problem:
            reason = str(problem)
        except OSError as problem:
            reason = f"TLS handshake: {problem.strerror or problem}"
        except BaseException as problem:
            if problem.args != (_TOO_MANY,):
                self._gave_up(stream, "")
                raise
            reason = _TOO_MANY
        else:
            self._connected(encrypted, principal)
            return
        self._gave_up(stream, reason)

    async def _handshake(self, stream: Stream) -> tuple[TlsStream, Principal]:
        arrived = await self._arrived(stream)
        if arrived[0] != _HANDSHAKE:
            raise _Refused(_PLAINTEXT)
        await self._enter()
        try:
            return await self._encrypted(stream, arrived)
        finally:
            self._room.release()

    async def _enter(self) -> None:
        while self._room.locked():
            try:
                async with asyncio.timeout(OWED_S_MAX):
                    await self._room.acquire()
                return
            except TimeoutError:
                self._make_room()
        await self._room.acquire()

    def _make_room(self) -> None:
        """End the handshake that has waited the longest for its client, if that was too long."""
        for task, since in self._owing.items():
            if self._broker.loop.time() - since >= OWED_S_MAX:
                del self._owing[task]
                task.cancel(_TOO_MANY)
            return

    async def _encrypted(self, stream: Stream, arrived: bytes) -> tuple[TlsStream, Principal]:
        encrypted = TlsStream(stream, self.certificates.loaded.server)
        loop, records = self._broker.loop, encrypted.records
        while True:
            try:
                done = await loop.run_in_executor(self._thread, records.handshake, arrived)
            except ssl.SSLError:
                await send_all(stream, records.outgoing())  # the alert
                raise
            if done:
                break
            await send_all(stream, records.outgoing())
            arrived = await self._answer(stream)
        principal = self._principal(encrypted)
        await send_all(stream, records.outgoing())
        return encrypted, principal

    async def _answer(self, stream: Stream) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._owing[task] = self._broker.loop.time()
        try:
            return await self._arrived(stream)
        finally:
            self._owing.pop(task, None)

    async def _arrived(self, stream: Stream) -> bytes:
        count = await receive_some(stream, self._buffer)
        if count == 0:
            raise _Refused(
                f"TLS handshake: {stream.failure}" if stream.failure else ""  # a health check
            )
        return bytes(self._buffer[:count])

    def _principal(self, stream: TlsStream) -> Principal:
        der = stream.records.tls.getpeercert(binary_form=True)
        if der is None:
            return ANONYMOUS
        try:
            subject = read_certificate(der).subject
            name = self.certificates.mapping.name_of(subject)
        except ValueError as problem:
            raise _Refused(f"the client's certificate cannot be read: {problem}") from None
        if name is None:
            raise _Refused(
                f"no rule of ssl.principal.mapping.rules matches the client's certificate:"
                f" {subject[:300]}"
            )
        return Principal(USER, name)


def new_thread() -> ThreadPoolExecutor:
    """For the handshakes of all listeners of a broker."""
    return ThreadPoolExecutor(1, "tls-handshakes")


async def connect_between_brokers(
    certificates: Certificates, network: Network, host: str, port: int
) -> Stream:
    """To another broker, with the stores of the listener between brokers."""
    stream = await network.connect(host, port, near=False)
    return await connect_tls(stream, certificates.loaded.client, host)
