"""A listener without a free file descriptor, on real sockets and a real limit."""

import asyncio
import io
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.model.ports import Stream
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork


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
                listening._accept()
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
        newcomer.settimeout(60)
        limit = max(map(int, os.listdir("/proc/self/fd"))) + 1
        fillers = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            while True:
                try:
                    fillers.append(os.dup(0))
                except OSError:
                    break
            listening._accept()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in fillers:
                os.close(descriptor)
        assert newcomer.recv(1) == b""
    assert "ulimit -n" in said.getvalue()
    listening.close()
