"""Sockets behind the Network port, watched by the running event loop.

Always: no call blocks; a peer that fails looks like a peer that closed.
A listener that runs out of file descriptors closes one that it holds in reserve, to accept and
close the new connection, so that accept never spins (see `_accept`).
A listener on a loopback address has a Unix socket of the same name, which `connect` tries first:
it moves records between brokers of one machine for half of what TCP costs (docs/adr/0034).
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence

from barnabas.model.ports import Buffer, FileSlice, Stream
from barnabas.system.logs import Logger

ACCEPTS_PER_WAKE_MAX = 8  # a flood of connections, each with a handshake, must not hold the loop
BACKLOG = 1024
PIPE_SIZE = 1 << 20
SMALL_BUFFER = 64 * 1024  # a buffer up to this size takes what has arrived; a larger one is filled
WAKE_SIZE = 128 * 1024  # bytes of a large buffer to wait for at once
UNIX_SEND_SIZE = 2 << 20  # buffer of a Unix socket, as far as the system allows it
_NO_DESCRIPTOR = -1
_CREDENTIALS = struct.Struct("3i")  # process, user, group


_LISTEN_REMEDIES = {
    errno.EADDRINUSE: ": another program uses this port: stop that program, or listen on another"
    " port (0 picks a free one)",
    errno.EACCES: ": this user may not use ports below 1024: listen on another port",
    errno.EADDRNOTAVAIL: ": this machine has no such address: listen on one that it has, or on"
    " 0.0.0.0 for all of them",
    socket.EAI_NONAME: ": listen on an address of this machine, or on a name that it knows",
}


def cannot_listen(host: str, port: int, error: OSError) -> OSError:
    """The same error, with the address and what to do."""
    why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    remedy = _LISTEN_REMEDIES.get(error.errno or 0, "")
    return OSError(error.errno, f"cannot listen on {host}:{port}: {why}{remedy}")


class Pipe:
    """Moves pages from file to socket, by reference.

    `sendfile` does the same with its own pipe that holds 64 KB, and wakes the reader for each 64
    KB: on a virtual machine the wake-ups cost more than the bytes (docs/adr/0008).
    Always: empty between two calls.
    """

    _closed = True  # until it is open

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._size = fcntl.fcntl(self._write, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except OSError:  # more than fs.pipe-max-size allows this user
            self._size = fcntl.fcntl(self._write, fcntl.F_GETPIPE_SZ)
        self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self._closed = False

    def send(self, to: int, slice_: FileSlice, more: bool) -> int:
        """Bytes that socket `to` took from the start of the slice."""
        size = min(slice_.length, self._size)
        count = os.splice(slice_.file.fileno(), self._write, size, offset_src=slice_.position)
        if count == 0:
            raise OSError(0, "the file is shorter than the length in the reply")
        flags = os.SPLICE_F_MORE if more or count < slice_.length else 0
        left = count
        try:
            while left:
                left -= os.splice(self._read, to, left, flags=flags)
        except BlockingIOError:
            return count - left
        finally:
            while left:
                left -= os.splice(self._read, self._nowhere, left)
        return count

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for fd in (self._read, self._write, self._nowhere):
                os.close(fd)

    def __del__(self) -> None:
        """The last stream that used it is closed."""
        self.close()


class SocketStream:
    """One connection."""

    __slots__ = (
        "_fd", "_loop", "_pipe", "_reading", "_socket", "_wake_size", "_writing", "failure", "peer",
    )  # fmt: skip

    def __init__(
        self, connected: socket.socket, peer: str, loop: asyncio.AbstractEventLoop, pipe: Pipe
    ) -> None:
        self._socket = connected
        self._fd = connected.fileno()
        self._loop = loop
        self._pipe = pipe
        self._reading = False
        self._writing = False
        self._wake_size = 1
        self.peer = peer
        self.failure = ""

    def receive_into(self, buffer: memoryview) -> int:
        try:
            count = self._socket.recv_into(buffer)
            if len(buffer) > SMALL_BUFFER or self._wake_size > 1:
                self._wake_at(len(buffer) - count if len(buffer) > SMALL_BUFFER else 0)
        except BlockingIOError:
            return -1
        except OSError as why:
            self.failure = why.strerror or str(why)
            return 0
        return count

    def _wake_at(self, missing: int) -> None:
        """Sleep until much of a large frame has arrived, not for each piece (docs/adr/0012)."""
        size = max(1, min(missing, WAKE_SIZE))
        if size != self._wake_size:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
            self._wake_size = size

    def send(self, parts: Sequence[Buffer], more: bool = False) -> int:
        flags = socket.MSG_MORE if more else 0
        try:
            if len(parts) == 1:
                return self._socket.send(parts[0], flags)
            return self._socket.sendmsg(parts, (), flags)
        except BlockingIOError:
            return 0

    def send_file(self, slice_: FileSlice, more: bool = False) -> int:
        return self._pipe.send(self._fd, slice_, more)

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        if callback is not None:
            self._loop.add_reader(self._fd, callback)
            self._reading = True
        elif self._reading:
            self._loop.remove_reader(self._fd)
            self._reading = False

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        if callback is not None:
            self._loop.add_writer(self._fd, callback)
            self._writing = True
        elif self._writing:
            self._loop.remove_writer(self._fd)
            self._writing = False

    def close(self) -> None:
        self.watch_readable(None)
        self.watch_writable(None)
        self._socket.close()


class SocketListening:
    """One or two listening sockets; accepts a bounded number of connections per wake-up."""

    def __init__(
        self,
        listening: socket.socket,
        near: socket.socket | None,
        accepted: Callable[[Stream], None],
        loop: asyncio.AbstractEventLoop,
        log: Logger,
    ) -> None:
        self._listening_sockets = [listening] if near is None else [listening, near]
        self._accepted = accepted
        self._loop = loop
        self._log = log
        self._pipe = Pipe()
        self._reserve = _spare_descriptor()
        self.host, self.port = listening.getsockname()[:2]
        self._paused = False
        for listening_socket in self._listening_sockets:
            listening_socket.listen(BACKLOG)
            listening_socket.setblocking(False)
        self.resume()

    def pause(self) -> None:
        """Brokers of this machine are accepted all the same."""
        self._paused = True
        self._loop.remove_reader(self._listening_sockets[0].fileno())

    def resume(self) -> None:
        self._paused = False
        for listening_socket in self._listening_sockets:
            if listening_socket.fileno() >= 0:  # not closed meanwhile
                self._loop.add_reader(listening_socket.fileno(), self._accept, listening_socket)

    def _accept(self, listening_socket: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_WAKE_MAX):
            if self._paused and listening_socket is self._listening_sockets[0]:
                return
            try:
                connected, address = listening_socket.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError as error:
                self._refuse(listening_socket, error)
                return
            connected.setblocking(False)
            if listening_socket.family == socket.AF_UNIX:
                if not _is_same_user(connected):
                    connected.close()
                    continue
                peer = f"{self.host}:near"
            else:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer = f"{address[0]}:{address[1]}"
            self._accepted(SocketStream(connected, peer, self._loop, self._pipe))

    def _refuse(self, listening_socket: socket.socket, error: OSError) -> None:
        """Out of descriptors: without this, the waiting connection would wake the loop forever."""
        self._log.error(
            "connection refused",
            reason=error.strerror,
            remedy="raise the limit of open files (ulimit -n) or lower max.connections",
        )
        self._close_reserve()
        try:
            listening_socket.accept()[0].close()
        except OSError:
            pass
        self._reserve = _spare_descriptor()

    def close(self) -> None:
        for listening_socket in self._listening_sockets:
            self._loop.remove_reader(listening_socket.fileno())
            listening_socket.close()
        self._close_reserve()

    def release(self) -> None:
        """After `close`, once no connection sends: for programs that stop brokers and go on."""
        self._pipe.close()

    def _close_reserve(self) -> None:
        """Only once: afterwards the same number may belong to another file."""
        if self._reserve != _NO_DESCRIPTOR:
            os.close(self._reserve)
            self._reserve = _NO_DESCRIPTOR


class SystemNetwork:
    """TCP on this machine."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._pipe: Pipe | None = None  # for outgoing connections, created with the first one

    def listen(
        self, host: str, port: int, accepted: Callable[[Stream], None], near: bool = True
    ) -> SocketListening:
        try:
            listening = _bound(host, port)
        except OSError as error:
            raise cannot_listen(host, port, error) from None
        unix = _bound_unix(*listening.getsockname()[:2]) if near else None
        return SocketListening(listening, unix, accepted, asyncio.get_running_loop(), self._log)

    async def connect(self, host: str, port: int, near: bool = True) -> SocketStream:
        loop = asyncio.get_running_loop()
        unix = _connected_unix(host, port) if near else None
        if unix is not None:
            return SocketStream(unix, f"{host}:{port}", loop, self._own_pipe())
        problem = OSError(f"{host} has no address")
        for family, address in await _addresses(loop, host, port):
            opened = socket.socket(family, socket.SOCK_STREAM)
            try:
                opened.setblocking(False)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.sock_connect(opened, address)
                pipe = self._own_pipe()
            except OSError as why:
                opened.close()
                problem = why
                continue
            except BaseException:
                opened.close()
                raise
            return SocketStream(opened, f"{host}:{port}", loop, pipe)
        raise problem

    def _own_pipe(self) -> Pipe:
        if self._pipe is None:
            self._pipe = Pipe()
        return self._pipe


async def _addresses(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> list[tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]]:
    """Numeric addresses are parsed at once; only a name is resolved, in a thread."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _spare_descriptor() -> int:
    """-1 when another thread took the last one; the next refused connection tries again."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _NO_DESCRIPTOR


def _bound(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    if _is_loopback(bound.getsockname()[0]):
        _send_unpaced(bound)
    return bound


# On the same machine


def _is_loopback(address: str) -> bool:
    """On Linux; on other systems our assumptions about loopback do not hold."""
    return sys.platform == "linux" and (address == "::1" or address.startswith("127."))


def _send_unpaced(bound: socket.socket) -> None:
    """If the system's congestion control is BBR, it would pace every packet even on loopback, where
    there is no network to share (docs/adr/0036). Accepted connections inherit the setting."""
    with contextlib.suppress(OSError):  # then the system's default stays
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def _unix_name(host: str, port: int) -> str | None:
    """Not a file: it is removed with its process."""
    return f"\0barnabas/{host}:{port}" if _is_loopback(host) else None


def _bound_unix(host: str, port: int) -> socket.socket | None:
    """None if it is not available: TCP remains."""
    name = _unix_name(host, port)
    if name is None:
        return None
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(name)
    except OSError:
        bound.close()
        return None
    return bound


def _connected_unix(host: str, port: int) -> socket.socket | None:
    name = _unix_name(host, port)
    if name is None:
        return None
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.setblocking(False)
    try:
        opened.connect(name)
        if _is_same_user(opened):
            return opened
    except OSError:
        pass
    opened.close()
    return None


def _is_same_user(connected: socket.socket) -> bool:
    """Whether the peer has our user id: any user may bind a free name."""
    size = _CREDENTIALS.size
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_SEND_SIZE)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())
