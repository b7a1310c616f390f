"""What both drivers do to a socket."""

import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from barnabas.config.kinds import Address
from barnabas.model.errors import Code, Corrupt, Failed, KafkaError, Retriable
from barnabas.wire.primitives import Malformed

SEND_PARTS_MAX = 512  # below the kernel's limit of pieces in one call
_NO_LINGER = struct.pack("ii", 1, 0)  # on, for 0 s


class ClientSocket(Protocol):
    """What both drivers do to a socket, with or without TLS."""

    buffered: bool
    """Whether received bytes may be waiting that select() does not see."""

    def recv_into(self, buffer: memoryview, /) -> int: ...
    def read_decrypted(self, buffer: memoryview, /) -> int: ...
    def sendmsg(self, parts: Sequence[memoryview], /) -> int: ...
    def settimeout(self, timeout_s: float, /) -> None: ...
    def fileno(self) -> int: ...
    def getpeername(self) -> Any: ...
    def setsockopt(self, level: int, option: int, value: bytes, /) -> None: ...
    def close(self) -> None: ...


class QuietSocket(socket.socket):
    """Closes itself, without a warning, when its owner forgot it."""

    buffered = False

    def read_decrypted(self, buffer: memoryview) -> int:
        """Without TLS, everything that was received was read."""
        return 0

    def __del__(self) -> None:
        self.close()


def new_socket(family: int) -> QuietSocket:
    made = QuietSocket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def abort(opened: ClientSocket) -> None:
    """Close it, and drop everything that the broker's machine has not received yet.

    After a plain close the kernel goes on sending: an old request could arrive after later ones
    on the next connection, and a commit of offsets would undo the commits after it.
    """
    with suppress(OSError):  # reset already
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    opened.close()


def numeric(address: Address) -> tuple[int, tuple[Any, ...]] | None:
    """Family and address for connect(), if no name must be looked up."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address.host)
        except OSError:
            continue
        return family, (address.host, address.port)
    return None


def views_of(parts: list[Any]) -> list[memoryview]:
    return [memoryview(part) for part in parts if len(part)]


class Unreached(Retriable):
    """No connection was made at all: refused, no route, no such host, or no answer in time."""


def peer_of(opened: ClientSocket, address: Address) -> str:
    try:
        return repr(opened.getpeername()[:2])
    except OSError:  # reset already
        return str(address)


class TlsRefused(OSError):
    """The broker does not accept the client's certificate: trying again would not help."""


def lost(address: Address, problem: OSError) -> KafkaError:
    """The error for what went wrong with a socket."""
    error = Failed if isinstance(problem, TlsRefused) else Retriable
    return error(*_said(address, problem))


def unreached(address: Address, problem: OSError) -> Unreached:
    """The error for a socket that could not be connected."""
    return Unreached(*_said(address, problem))


def _said(address: Address, problem: OSError) -> tuple[Code, str]:
    if isinstance(problem, TimeoutError):
        return Code.REQUEST_TIMED_OUT, f"{address}: no answer in time"
    number = problem.errno or 0
    reason = os.strerror(number) if number > 0 else problem.strerror or str(problem)
    return Code.NETWORK_EXCEPTION, f"{address}: {reason}"


def named(address: Address, problem: KafkaError, *, greeted: bool) -> KafkaError:
    """The error for bytes that cannot be read: it says whose they were.

    Of a broker that was greeted, they were garbled on the way: another connection may do. Before,
    this may be no broker at all, and trying again would not help.
    """
    said = f"{address}: {problem.detail}"
    if isinstance(problem, Corrupt | Malformed):
        if greeted:
            return Retriable(Code.CORRUPT_MESSAGE, f"{said}; the connection was closed")
        return Corrupt(said, problem.code)
    return type(problem)(problem.code, said)
