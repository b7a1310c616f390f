"""A Stream that encrypts another one, for connections that a broker accepts or opens.

Always: no call blocks. A file slice is read, encrypted and sent: splice is not possible. Decrypted
bytes inside OpenSSL cause no event, so the stream calls its reader again while there may be some.
Not here: the handshake of accepted connections (broker/security/tls_listener.py).
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence

from barnabas.model.ports import Buffer, FileSlice, Stream
from barnabas.system.tls.contexts import describe
from barnabas.system.tls.records import AHEAD_MAX, READ_SIZE, TlsRecords

KEY_BYTES_MAX = 256 << 30  # AES-GCM keys are good for 388 GB, and Python cannot ask for another
BURST_MAX = 1 << 20  # bytes encrypted before other connections have a turn
_HANDSHAKE_READ = 16 * 1024
_received = memoryview(bytearray(READ_SIZE))  # of all streams: a process has one loop for them


class TlsStream:
    """See model/ports.py."""

    __slots__ = (
        "_burst", "_bytes", "_inner", "_loop", "_reader", "_wakes", "failure", "peer", "records",
    )  # fmt: skip

    def __init__(self, inner: Stream, context: ssl.SSLContext, *, host: str | None = None) -> None:
        """`host`: the name in the certificate of the broker that is called; None: this side is
        called."""
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._reader: Callable[[], None] | None = None
        self._wakes = False
        self._burst = 0
        self._bytes = 0 if host is not None else None  # counted by the side that can open another
        self.peer = inner.peer
        self.failure = ""
        self.records = TlsRecords(
            context, inner.send, inner.receive_into, _received, server_side=host is None, host=host
        )

    def receive_into(self, buffer: memoryview) -> int:
        self._burst = 0
        try:
            count = self.records.receive_into(buffer)
        except ssl.SSLError as problem:
            self.failure = describe(problem)
            return 0
        except OSError as problem:
            self.failure = problem.strerror or str(problem)
            return 0
        if count == 0:
            self.failure = self._inner.failure
        elif self.records.more:
            self._wake()
        if self._bytes is not None:
            self._bytes += count
        return count

    def send(self, parts: Sequence[Buffer], more: bool = False) -> int:
        if self._burst >= BURST_MAX:
            self._burst = 0
            return 0
        if self._bytes is not None and self._bytes > KEY_BYTES_MAX:
            raise OSError(0, "its TLS keys are used up: the next request opens another connection")
        count = self.records.send(parts, more)
        self._burst += count
        if self._bytes is not None:
            self._bytes += count
        return count

    def send_file(self, slice_: FileSlice, more: bool = False) -> int:
        size = min(slice_.length, AHEAD_MAX)
        data = slice_.file.read(slice_.position, size)
        if len(data) < size:
            raise OSError(0, "the file is shorter than the length in the reply")
        return self.send((data,), more or size < slice_.length)

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        self._reader = callback
        self._inner.watch_readable(callback)
        if callback is not None and self.records.more:
            self._wake()

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        self._inner.watch_writable(callback)

    def _wake(self) -> None:
        if not self._wakes:
            self._wakes = True
            self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        self._wakes = False
        if self._reader is not None and self.records.more:
            self._reader()

    def close(self) -> None:
        self._reader = None
        try:
            self.records.say_goodbye()
        except OSError:  # the peer is gone
            pass
        self._inner.close()


async def connect_tls(inner: Stream, context: ssl.SSLContext, host: str) -> TlsStream:
    """The stream after the handshake. OSError says why there is none."""
    stream = TlsStream(inner, context, host=host)
    buffer = memoryview(bytearray(_HANDSHAKE_READ))
    arrived: Buffer = b""
    try:
        while True:
            try:
                done = stream.records.handshake(arrived)
            finally:
                await send_all(inner, stream.records.outgoing())
            if done:
                return stream
            count = await receive_some(inner, buffer)
            if not count:
                raise ConnectionResetError(inner.failure or "it closed during the TLS handshake")
            arrived = bytes(buffer[:count])
    except ssl.SSLError as problem:
        inner.close()
        raise OSError(f"TLS handshake: {describe(problem)}") from None
    except BaseException:
        inner.close()
        raise


async def receive_some(inner: Stream, buffer: memoryview) -> int:
    """Bytes received; 0 at the end."""
    while (count := inner.receive_into(buffer)) < 0:
        await _event(inner.watch_readable)
    return count


async def send_all(inner: Stream, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        count = inner.send((rest,))
        rest = rest[count:]
        if not count:
            await _event(inner.watch_writable)


async def _event(watch: Callable[[Callable[[], None] | None], None]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(lambda: None if future.done() else future.set_result(None))
    try:
        await future
    finally:
        watch(None)
