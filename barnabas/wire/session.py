"""The asking side of one connection: frames out, responses in, without the connection.

In: requests to send, bytes received. Out: bytes to send, responses.
Always: responses are matched to requests in order; a response larger than `response_size_max`
is never taken, and memory grows with what has arrived, not with what was announced.
Not here: sockets and time, which versions the other side speaks (client/session.py; brokers of
one cluster know).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from barnabas.model.errors import Code, Corrupt
from barnabas.model.ports import Buffer, FileSlice
from barnabas.wire.apis import API_VERSIONS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import SIZE_SIZE, read_response, request_parts

RESPONSE_SIZE_MAX = 256 * 1024 * 1024
_CORRELATION_MAX = 0x7FFF_FFFF
_BUFFER_SIZE = 1 << 16
_BODY_SIZE_FIRST = 2 << 20  # of a large response, until that much of it has come
_BODY_GROWTH = 4


class _Pending(NamedTuple):
    correlation_id: int
    api_key: int
    version: int


def _memory(size: int) -> memoryview:
    return memoryview(bytearray(size))


class Exchange:
    """Fill `room()`, then say how much with `received(count)`, which gives whole responses.

    `memory` makes room for large ones, which are views of it.
    """

    def __init__(
        self,
        client_id: str,
        response_size_max: int = RESPONSE_SIZE_MAX,
        memory: Callable[[int], memoryview] = _memory,
    ) -> None:
        self._client_id = client_id
        self._response_size_max = response_size_max
        self._memory = memory
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._buffer = bytearray(_BUFFER_SIZE)  # small responses, as many as come at once
        self._filled = 0
        self._body: memoryview | None = None  # of a response too large for the buffer
        self._body_size = 0

    @property
    def pending(self) -> int:
        """Requests that wait for their answer."""
        return len(self._pending)

    def frame(
        self, message: ProtocolMessage, version: int, answered: bool = True
    ) -> list[Buffer | FileSlice]:
        """The bytes of a request; `answered=False` for the one kind that gets no answer."""
        correlation_id = self._next_correlation_id
        parts = request_parts(message.api_key, version, correlation_id, self._client_id, message)
        self._next_correlation_id = (correlation_id + 1) & _CORRELATION_MAX
        if answered:
            self._pending.append(_Pending(correlation_id, message.api_key, version))
        return parts

    def room(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return memoryview(self._buffer if self._body is None else self._body)[self._filled :]

    def received(self, count: int) -> list[ProtocolMessage]:
        """The responses that are whole with these bytes."""
        self._filled += count
        if self._body is not None:
            return self._more_of_body(self._body)
        found: list[ProtocolMessage] = []
        position = 0
        while self._filled - position >= SIZE_SIZE:
            start = position + SIZE_SIZE
            size = int.from_bytes(self._buffer[position:start], signed=True)
            if not 4 <= size <= self._response_size_max:
                raise Corrupt(
                    f"response of {size} bytes announced, {self._response_size_max} at most: "
                    "is this a Kafka port, and does it expect TLS?",
                    Code.NETWORK_EXCEPTION,
                )
            if start + size > self._filled:
                if SIZE_SIZE + size > _BUFFER_SIZE:
                    self._begin_body(start, size)
                    return found
                break
            # A copy: responses are views of theirs, and outlive the next read.
            found.append(self._response(self._buffer[start : start + size]))
            position = start + size
        if position:
            left = self._filled - position
            self._buffer[:left] = self._buffer[position : self._filled]
            self._filled = left
        return found

    def _begin_body(self, start: int, size: int) -> None:
        arrived = self._filled - start
        self._body = self._memory(min(size, max(_BODY_SIZE_FIRST, arrived + 1)))
        self._body[:arrived] = memoryview(self._buffer)[start : self._filled]
        self._body_size = size
        self._filled = arrived

    def _more_of_body(self, body: memoryview) -> list[ProtocolMessage]:
        if self._filled < len(body):
            return []
        if self._filled < self._body_size:
            # Another one, not a larger one: the caller may still hold a view of this.
            self._body = self._memory(min(self._body_size, len(body) * _BODY_GROWTH))
            self._body[: self._filled] = body
            return []
        self._body = None
        self._filled = 0
        return [self._response(body)]

    def _response(self, frame: Buffer) -> ProtocolMessage:
        if not self._pending:
            raise Corrupt("response to no request", Code.NETWORK_EXCEPTION)
        expected, api_key, version = self._pending.popleft()
        if api_key == API_VERSIONS and frame[4:6] == b"\0\x23":
            version = 0  # a broker too old for the version asked answers in the oldest
        correlation_id = int.from_bytes(frame[:4], signed=True)
        if correlation_id != expected:
            raise Corrupt(
                f"response {correlation_id} where {expected} was due", Code.NETWORK_EXCEPTION
            )
        return read_response(frame, api_key, version)[1]
