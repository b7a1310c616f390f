"""A broker that can be made to lie: real sockets, true greetings, answers by a function."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_request_header, response_parts
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

API_VERSIONS, METADATA, PRODUCE, INIT_PRODUCER_ID = 18, 3, 0, 22


class Request:
    """One that came, and how to answer it."""

    def __init__(self, accepted: socket.socket, frame: bytes) -> None:
        header = read_request_header(frame)
        self.key = header.api_key
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.message: Any = APIS[self.key].request.decode(frame, self.version, header.body_position)
        self.socket = accepted

    def answer(self, response: ProtocolMessage, correlation_id: int | None = None) -> None:
        number = self.correlation_id if correlation_id is None else correlation_id
        parts = response_parts(self.key, self.version, number, response)
        self.raw(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def body(self, data: bytes) -> None:
        """A frame with the right correlation id, and this behind it."""
        self.raw(struct.pack(">ii", len(data) + 4, self.correlation_id) + data)


Behave = Callable[[Request], None]


class Impostor:
    """Serves until closed. `behave` answers what is not a greeting; if it raises, it hangs up.

    While `going` is not set it is like a stopped process: it answers nothing, not even greetings,
    and reads no more than one request of each connection.
    """

    def __init__(self, behave: Behave) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self.closing = threading.Event()
        self.unwelcome = 0  # greetings that are still to be answered by hanging up
        self.going = threading.Event()
        self.going.set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> "Impostor":
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.going.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in it
        self._accepting.join()
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def connected(self) -> list[str]:
        """Sockets of this process that are connected to it."""
        there, established = f":{self.port:04X}", "01"
        rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()]
        return [row[1] for row in rows if row[2].endswith(there) and row[3] == established]

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(accepted)
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with accepted:
            try:
                while True:
                    (size,) = struct.unpack(">i", _exactly(accepted, 4))
                    request = Request(accepted, _exactly(accepted, size))
                    self.going.wait()
                    if request.key == API_VERSIONS and self.unwelcome:
                        self.unwelcome -= 1
                        raise ConnectionResetError
                    if request.key == API_VERSIONS:
                        request.answer(_versions())
                    else:
                        self._behave(request)
            except OSError:
                return

    def metadata(
        self, topic: str = "t", partitions: int = 1, port: int | None = None
    ) -> MetadataResponse:
        """Metadata in which this one leads everything."""
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(
                    node_id=1, host="127.0.0.1", port=self.port if port is None else port
                )
            ],
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    error_code=0,
                    name=topic,
                    partitions=[
                        MetadataResponsePartition(
                            error_code=0,
                            partition_index=number,
                            leader_id=1,
                            replica_nodes=[1],
                            isr_nodes=[1],
                        )
                        for number in range(partitions)
                    ],
                )
            ],
        )


def _versions() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in APIS.values()
        ],
    )


def _exactly(accepted: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = accepted.recv(count - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data
