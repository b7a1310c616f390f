# cython: annotation_typing=False, infer_types=False
"""The frame of a request: which sizes are refused, and a frame that takes several reads.

Always: the memory of a frame grows with the bytes that have arrived, not with the announced size.
Not here: a frame that arrives complete in one read, which connection.py handles in place.

Compiled beside connection.py, with the types in frame.pxd.
"""

from barnabas.broker.net.buffers import Buffers
from barnabas.model.ports import Stream

COMPILED = not __file__.endswith(".py")

FRAME_SIZE_MIN = 8  # api key, version, correlation id
SLOW_FRAME_MS = 30_000
SLOW_FRAME_CROWDED_MS = 2_000  # while other connections wait for the memory that slow frames hold
SLOW_FRAME_BYTES_PER_MS = 64
_TLS_HELLO = 0x1603  # how a TLS connection begins
NOTHING_ARRIVED, NO_ROOM = -1, -2  # what `FrameInProgress.receive` returns instead of a count


def size_refusal(size: int, size_max: int, is_login: bool = False) -> str:
    """Why a frame that announces `size` bytes is not read."""
    if size >> 16 == _TLS_HELLO:
        return "TLS on a listener without TLS: set security.protocol of the client to its protocol"
    if is_login and size > size_max:
        return f"request of {size} bytes before the login: sasl.server.max.receive.size: {size_max}"
    if size < FRAME_SIZE_MIN:
        return f"request of {size} bytes: less than a request header; this is not Kafka's protocol"
    return (
        f"request of {size} bytes: socket.request.max.bytes allows {size_max};"
        " send smaller batches or raise it"
    )


class FrameInProgress:
    """A frame that takes several reads, as far as it has arrived."""

    __slots__ = ("_buffer", "_buffers", "_filled", "_size", "started_ms")

    def __init__(self, buffers: Buffers, buffer: memoryview, size: int, now_ms: int) -> None:
        self._buffers = buffers
        self._buffer = buffer
        self._size = size
        self._filled = 0
        self.started_ms = now_ms

    def begin(self, received: memoryview) -> None:
        """Takes the bytes that arrived together with the size."""
        self._filled = len(received)
        self._buffer[: self._filled] = received

    def receive(self, stream: Stream) -> int:
        """How many bytes arrived; 0 if the peer has closed; or NOTHING_ARRIVED, NO_ROOM."""
        if self._filled == len(self._buffer):
            larger = self._buffers.grow(self._buffer, self._size)
            if larger is None:
                return NO_ROOM
            self._buffer = larger
        count = stream.receive_into(self._buffer[self._filled : self._size])
        if count > 0:
            self._filled += count
        return count

    def complete(self) -> memoryview | None:
        """The whole frame, valid until `release`; None while a part of it is missing."""
        return self._buffer[: self._size] if self._filled == self._size else None

    def release(self) -> None:
        self._buffers.give_back(self._buffer)

    def is_too_slow(self, now_ms: int, silent_ms: int, crowded: bool) -> bool:
        """Whether it arrives more slowly than over any working link.

        The limit is lower when it is crowded: when other connections wait for the memory of frames.
        """
        grace_ms = SLOW_FRAME_CROWDED_MS if crowded else SLOW_FRAME_MS
        taken_ms = now_ms - self.started_ms
        too_long = taken_ms > grace_ms + self._filled // SLOW_FRAME_BYTES_PER_MS
        return too_long or (crowded and silent_ms > grace_ms)
