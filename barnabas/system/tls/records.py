"""A TLS connection without its socket: plain bytes on one side, records on the other.

In: what arrived, what is to be sent. Out: the same, decrypted and encrypted.
Always: at most AHEAD_MAX bytes are encrypted that have not left yet; whatever OpenSSL wants to say
by itself (session tickets, answers to key updates, alerts) leaves after every read.

OpenSSL cannot take bytes back, and a socket may accept only a part of a record. So `send` keeps the
rest, and reports one byte less than it took: the caller offers this byte again when more can be
sent, and knows until then that not everything has left. The byte is skipped, not sent twice.
"""

import ssl
from collections.abc import Callable, Sequence

from barnabas.model.ports import Buffer

AHEAD_MAX = 64 * 1024  # OpenSSL never shrinks its buffers: more would stay with each connection
READ_SIZE = 64 * 1024  # a socket waits to fill a larger buffer (system/network.py)
READS_MAX = 32  # in one call: records without data must not hold the thread
UNASKED_MAX = 64 * 1024  # bytes of OpenSSL's own that a peer leaves unread
_SMALL = 4 * 1024  # a smaller piece is sent together with its neighbours, in one record

Send = Callable[[Sequence[Buffer], bool], int]
"""Bytes that the socket took, perhaps 0; whether more follow at once."""
Receive = Callable[[memoryview], int]
"""Bytes received; 0 at the end of the connection; -1 when there is nothing yet."""


class TlsRecords:
    """One connection after, or during, its handshake."""

    __slots__ = (
        "_in", "_out", "_owed", "_receive", "_received", "_send", "_unsent", "ended", "more", "tls",
    )  # fmt: skip

    def __init__(
        self,
        context: ssl.SSLContext,
        send: Send,
        receive: Receive,
        received: memoryview,
        *,
        server_side: bool,
        host: str | None = None,
    ) -> None:
        """`received`: memory for one read. Connections of one thread may share it.

        `send` and `receive` must not lead back to this object: a broker looks for cycles rarely,
        and each would keep the memory of a connection.
        """
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._in, self._out, server_side=server_side, server_hostname=host
        )
        self._send = send
        self._receive = receive
        self._received = received
        self._unsent: memoryview | None = None  # encrypted, and the socket has not taken it yet
        self._owed = 0  # bytes that were encrypted, and that the caller offers again
        self.more = False  # whether decrypted bytes may wait, which cause no event
        self.ended = False  # the peer has said, within TLS, that nothing follows

    # The handshake

    def handshake(self, arrived: Buffer) -> bool:
        """Whether it is complete. ssl.SSLError if it fails. It may run on any thread."""
        if arrived:
            self._in.write(arrived)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.more = True  # the peer may have sent its first request with the last of its handshake
        return True

    def outgoing(self) -> bytes:
        """What the handshake has to say."""
        return self._out.read()

    def left_unsent(self, rest: memoryview) -> None:
        """Of the handshake: it leaves before anything else."""
        self._unsent = rest

    # Receiving

    def receive_into(self, buffer: memoryview) -> int:
        """As Stream.receive_into; ssl.SSLError if a record is not valid."""
        filled = 0
        size = len(buffer)
        received = self._received
        read: Callable[[int, memoryview], int] = self.tls.read  # type: ignore[assignment]
        over = False
        reads_left = READS_MAX
        try:
            while filled < size:
                try:
                    count = read(size - filled, buffer[filled:])
                    if not count:  # the peer has ended it
                        self.ended = over = True
                        break
                    filled += count
                except ssl.SSLWantReadError:
                    if not reads_left:
                        break
                    reads_left -= 1
                    count = self._receive(received)
                    if count <= 0:
                        over = count == 0
                        break
                    self._in.write(received[:count])
        except ssl.SSLZeroReturnError:
            self.ended = over = True
        finally:
            if self._out.pending:
                self._push_unasked()
        self.more = filled == size
        if filled:
            self.more = self.more or over  # the end is reported by the next call
            return filled
        return 0 if over else -1

    def feed(self, arrived: Buffer) -> None:
        """For a caller that receives by itself, and then calls `read_decrypted`."""
        self._in.write(arrived)

    def read_decrypted(self, buffer: memoryview) -> int:
        """What has arrived before and fits; 0 if there is nothing. It never waits."""
        filled = 0
        read: Callable[[int, memoryview], int] = self.tls.read  # type: ignore[assignment]
        try:
            while filled < len(buffer):
                count = read(len(buffer) - filled, buffer[filled:])
                if not count:
                    self.ended = True
                    break
                filled += count
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        finally:
            if self._out.pending:
                self._push_unasked()
        return filled

    def _push_unasked(self) -> None:
        data = self._out.read()
        if self._unsent is not None:
            data = bytes(self._unsent) + data
        self._unsent = memoryview(data)
        if not self._push(False) and len(self._unsent) > UNASKED_MAX + AHEAD_MAX:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, "the peer does not read what TLS answers")

    # Sending

    def send(self, parts: Sequence[Buffer], more: bool) -> int:
        """As Stream.send: bytes taken, perhaps 0."""
        if self._unsent is not None and not self._push(more):
            return 0
        pieces, taken = self._chosen(parts)
        if not pieces:
            return taken
        self._encrypt(pieces)
        data = self._out.read()
        count = self._send((data,), more)
        if count < len(data):
            self._unsent = memoryview(data)[count:]
            self._owed = 1
            return taken - 1
        return taken

    def _chosen(self, parts: Sequence[Buffer]) -> tuple[list[Buffer], int]:
        """Up to AHEAD_MAX bytes, without those that are owed; and how many that are with them."""
        pieces: list[Buffer] = []
        room = AHEAD_MAX
        taken = skip = self._owed
        self._owed = 0
        for part in parts:
            size = len(part)
            if skip:
                if size <= skip:
                    skip -= size
                    continue
                part = memoryview(part)[skip:]
                size -= skip
                skip = 0
            if size > room:
                part, size = memoryview(part)[:room], room
            pieces.append(part)
            taken += size
            room -= size
            if not room:
                break
        return pieces, taken

    def _encrypt(self, pieces: list[Buffer]) -> None:
        write = self.tls.write
        small: list[Buffer] = []
        for piece in pieces:
            if len(piece) < _SMALL:
                small.append(piece)
                continue
            if small:
                write(b"".join(small))
                small.clear()
            write(piece)
        if small:
            joined = b"".join(small)
            if joined:
                write(joined)

    def _push(self, more: bool) -> bool:
        """Whether everything that was encrypted has left."""
        unsent = self._unsent
        assert unsent is not None
        count = self._send((unsent,), more)
        self._unsent = unsent[count:] if count < len(unsent) else None
        return self._unsent is None

    def say_goodbye(self) -> None:
        """Tell the peer that the connection ends here, if that is possible without waiting."""
        if self._unsent is not None:
            return
        try:
            self.tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass
        if self._out.pending:
            self._send((self._out.read(),), False)
