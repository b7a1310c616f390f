"""Real sockets: too few file descriptors, frames in pieces, and peers on the same machine."""

import asyncio
import io
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barnabas.model.ports import Stream
from barnabas.system.logs import Logger
from barnabas.system.network import SMALL_BUFFER, WAKE_SIZE, SocketStream, SystemNetwork
from tests.ports import free_ports_from
from tests.waiting import WAIT_S, eventually


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """None can be opened inside, and one that is closed cannot be opened again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_reserve_that_cannot_be_opened_again_is_never_closed_twice() -> None:
    said = io.StringIO()
    accepted: list[Stream] = []
    arrived = asyncio.Event()

    def take(stream: Stream) -> None:
        accepted.append(stream)
        arrived.set()

    listening = SystemNetwork(Logger(said)).listen("127.0.0.1", 0, take)
    before = set(os.listdir("/proc/self/fd"))
    with socket.create_connection((listening.host, listening.port)):
        with no_more_descriptors():
            for _ in range(3):
                listening._accept(listening._listening_sockets[0])
        assert said.getvalue().count("connection refused") == 3
        unrelated = os.open(os.devnull, os.O_RDONLY)  # gets the number the reserve had
        await arrived.wait()
        assert len(accepted) == 1, "the newcomer waited"
        accepted[0].close()
        listening.close()
        os.fstat(unrelated)
    os.close(unrelated)
    assert len(set(os.listdir("/proc/self/fd")) - before) == 0


async def test_a_newcomer_without_a_descriptor_left_is_turned_away() -> None:
    said = io.StringIO()
    listening = SystemNetwork(Logger(said)).listen("127.0.0.1", 0, lambda stream: None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_connection((listening.host, listening.port)) as newcomer:
        newcomer.settimeout(WAIT_S)
        limit = max(map(int, os.listdir("/proc/self/fd"))) + 1
        fillers = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            while True:
                try:
                    fillers.append(os.dup(0))
                except OSError:
                    break
            listening._accept(listening._listening_sockets[0])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in fillers:
                os.close(descriptor)
        assert newcomer.recv(1) == b""
    assert "ulimit -n" in said.getvalue()
    listening.close()


class Filling:
    """A stream that fills a buffer, and counts how often it was woken."""

    def __init__(self, stream: Stream, size: int) -> None:
        self._stream = stream
        self.room = memoryview(bytearray(size))
        self.filled = self.woken = 0
        self.closed = False
        stream.watch_readable(self._readable)

    def _readable(self) -> None:
        self.woken += 1
        count = self._stream.receive_into(self.room[self.filled :])
        self.filled += max(count, 0)
        if not count:
            self.closed = True
            self._stream.close()


async def filling(size: int) -> tuple[socket.socket, Filling]:
    accepted: list[Stream] = []
    listening = SystemNetwork(Logger(io.StringIO())).listen("127.0.0.1", 0, accepted.append)
    peer = socket.create_connection((listening.host, listening.port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await eventually(lambda: accepted)
    listening.close()
    return peer, Filling(accepted[0], size)


async def test_a_large_buffer_is_filled_with_few_wake_ups() -> None:
    size = 4 * WAKE_SIZE + 100
    peer, taken = await filling(size)
    data = os.urandom(size)
    with peer:
        peer.sendall(data[:100])
        await eventually(lambda: taken.filled == 100)
        for position in range(100, size, 1000):
            peer.sendall(data[position : position + 1000])
            await asyncio.sleep(0)
        await eventually(lambda: taken.filled == size)
        assert taken.room == data
        assert taken.woken < 50, "529 pieces came"
        peer.sendall(b"more")  # the next frame, perhaps a short one
        taken.room, taken.filled = memoryview(bytearray(SMALL_BUFFER)), 0
        await eventually(lambda: taken.filled == 4)
    await eventually(lambda: taken.closed)


async def test_a_peer_that_closes_in_the_middle_of_a_large_frame_is_noticed() -> None:
    peer, taken = await filling(4 * WAKE_SIZE)
    with peer:
        peer.sendall(bytes(100))
        await eventually(lambda: taken.filled == 100)
        peer.sendall(bytes(200))
    await eventually(lambda: taken.closed)
    assert taken.filled == 300


class Both:
    """A listener, and a connection to it."""

    def __init__(self) -> None:
        self.network = SystemNetwork(Logger(io.StringIO()))
        self.accepted: list[Stream] = []
        self.listening = self.network.listen("127.0.0.1", 0, self.accepted.append)

    async def connect(self) -> tuple[SocketStream, Stream]:
        stream = await self.network.connect("127.0.0.1", self.listening.port)
        await eventually(lambda: self.accepted)
        return stream, self.accepted.pop()

    async def send_all(self, data: bytes, one: Stream, other: Stream) -> None:
        room, filled, sent = memoryview(bytearray(len(data))), 0, 0
        while filled < len(data):
            if sent < len(data):
                sent += one.send([memoryview(data)[sent:]])
            count = other.receive_into(room[filled:])
            assert count, "it closed"
            filled += max(0, count)
            await asyncio.sleep(0)
        assert room == data


async def test_peers_on_one_machine_speak_over_a_unix_socket() -> None:
    both = Both()
    stream, accepted = await both.connect()
    assert stream._socket.family == socket.AF_UNIX
    assert accepted.peer == "127.0.0.1:near"
    data = os.urandom(3 << 20)
    await both.send_all(data, stream, accepted)
    await both.send_all(data, accepted, stream)
    accepted.close()
    assert stream.receive_into(memoryview(bytearray(10))) == 0
    stream.close()
    both.listening.close()
    with pytest.raises(ConnectionRefusedError):
        await both.network.connect("127.0.0.1", both.listening.port)


async def test_a_port_of_somebody_else_is_reached_over_tcp() -> None:
    both = Both()
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = await both.network.connect("127.0.0.1", server.getsockname()[1])
        assert stream._socket.family == socket.AF_INET
        stream.close()
    both.listening.close()


async def test_a_unix_socket_that_cannot_be_had_leaves_tcp() -> None:
    port = free_ports_from(1)
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(f"\0barnabas/127.0.0.1:{port}")
        network, accepted = SystemNetwork(Logger(io.StringIO())), list[Stream]()
        listening = network.listen("127.0.0.1", port, accepted.append)
        stream = await network.connect("127.0.0.1", port)
        assert stream._socket.family == socket.AF_INET
        await eventually(lambda: accepted)
        accepted[0].close()
        stream.close()
        listening.close()


async def test_a_unix_socket_of_another_user_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = Both()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    stream, accepted = await both.connect()
    assert stream._socket.family == socket.AF_INET
    assert accepted.peer != "127.0.0.1:near"
    accepted.close()
    stream.close()
    both.listening.close()


@pytest.mark.parametrize(("host", "paced"), [("127.0.0.1", False), ("", True)])
async def test_only_what_stays_on_this_machine_goes_unpaced(host: str, paced: bool) -> None:
    with socket.socket() as untouched:
        usual = _congestion_control(untouched)
    network, accepted = SystemNetwork(Logger(io.StringIO())), list[Stream]()
    listening = network.listen(host, 0, accepted.append)
    with socket.create_connection(("127.0.0.1", listening.port)):
        await eventually(lambda: accepted)
        (stream,) = accepted
        assert isinstance(stream, SocketStream)
        assert _congestion_control(stream._socket) == (usual if paced else b"reno")
        stream.close()
    listening.close()


def _congestion_control(one: socket.socket) -> bytes:
    return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
