"""Asks a broker, in raw bytes and without any client, whether it answers Metadata yet."""

import socket
import struct
import time
from collections.abc import Callable

from tests.secured import connection
from tests.waiting import WAIT_S

PAUSE_S = 0.02

# Metadata version 1, no topics: the oldest form every broker still takes.
_BODY = struct.pack(">hhih5si", 3, 1, 7, 5, b"probe", 0)
METADATA_REQUEST = struct.pack(">i", len(_BODY)) + _BODY


def ask(host: str, port: int, request: bytes, timeout_s: float = WAIT_S) -> bytes:
    """The answer to one framed request, without its length; ConnectionError if there is none."""
    with connection(host, port, timeout_s) as opened:
        opened.sendall(request)
        (length,) = struct.unpack(">i", _exactly(opened, 4))
        return _exactly(opened, length)


def _exactly(opened: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        piece = opened.recv(length - len(received))
        if not piece:
            raise ConnectionError(f"closed after {len(received)} of {length} bytes")
        received += piece
    return received


def advertised_apis(host: str, port: int) -> dict[int, tuple[int, int]]:
    """API key to its lowest and highest version, from ApiVersions version 0."""
    body = struct.pack(">hhih5s", 18, 0, 7, 5, b"probe")
    answer = ask(host, port, struct.pack(">i", len(body)) + body)
    _, error, count = struct.unpack_from(">ihi", answer)
    if error:
        raise ConnectionError(f"ApiVersions answered error {error}")
    triples = [struct.unpack_from(">hhh", answer, 10 + 6 * i) for i in range(count)]
    return {key: (lowest, highest) for key, lowest, highest in triples}


def wait_for_metadata(
    host: str, port: int, timeout_s: float, alive: Callable[[], bool] = lambda: True
) -> None:
    """Return at the first Metadata answer that names a broker."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            answer = ask(host, port, METADATA_REQUEST)
        except OSError:
            answer = b""
        if len(answer) > 8 and struct.unpack_from(">i", answer, 4)[0] > 0:
            return
        if not alive():
            raise RuntimeError(f"the broker for {host}:{port} ended before it answered")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no Metadata answer from {host}:{port} in {timeout_s} s")
        time.sleep(PAUSE_S)
