"""The blocking driver, against brokers that misbehave."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.connection import BlockingConnection
from barnabas.client.blocking.connection import connect as open_connection
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, Corrupt, Retriable
from tests.ports import free_ports_from
from tests.waiting import WAIT_S

Serve = Callable[[Callable[[socket.socket], None]], Address]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves one connection with a function of the test's."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(behave: Callable[[socket.socket], None]) -> Address:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            accepted, _ = listener.accept()
            with accepted, suppress(OSError):  # the client may have gone
                behave(accepted)

        thread = threading.Thread(target=run)
        thread.start()
        threads.append(thread)
        host, port = listener.getsockname()
        return Address(host, port)

    yield start
    for thread in threads:
        thread.join(WAIT_S)
    for listener in listeners:
        listener.close()


def _wait(done: threading.Event) -> None:
    done.wait(WAIT_S)


def connect(address: Address, timeout_ms: int = 180_000) -> BlockingConnection:
    return open_connection(address, client_id="t", timeout_ms=timeout_ms)


def test_nobody_there_is_said_at_once() -> None:
    port = free_ports_from(1)
    with (
        Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin,
        pytest.raises(Retriable, match=f"{port}: Connection refused") as refused,
    ):
        admin.topics()
    assert refused.value.code is Code.NETWORK_EXCEPTION


def test_a_broker_that_hangs_up_is_named(serve: Serve) -> None:
    address = serve(lambda accepted: None)
    with pytest.raises(Retriable, match=str(address.port)):
        connect(address)


def test_a_silent_broker_costs_no_more_than_the_timeout(serve: Serve) -> None:
    done = threading.Event()
    address = serve(lambda accepted: _wait(done))
    with pytest.raises(Retriable) as late:
        connect(address, timeout_ms=50)
    done.set()
    assert late.value.code is Code.REQUEST_TIMED_OUT


def test_a_web_server_is_not_taken_for_a_broker(serve: Serve) -> None:
    def answer(accepted: socket.socket) -> None:
        accepted.recv(1000)
        accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with pytest.raises(Corrupt, match="is this a Kafka port"):
        connect(serve(answer))


def test_a_drip_of_bytes_does_not_stretch_the_timeout(serve: Serve) -> None:
    done = threading.Event()

    def drip(accepted: socket.socket) -> None:
        accepted.recv(1000)
        accepted.sendall(b"\0\0\1\0")
        while not done.wait(0.01):
            accepted.sendall(b"\0")

    with pytest.raises(Retriable) as late:
        connect(serve(drip), timeout_ms=100)
    done.set()
    assert late.value.code is Code.REQUEST_TIMED_OUT


def test_a_cluster_closes_while_another_thread_drops_what_was_hung_up() -> None:
    cluster = open_cluster({"bootstrap.servers": "127.0.0.1:1"}, {})

    class Beside:
        """A connection at whose end the other thread has its turn."""

        closed = False

        def silent_ms(self) -> int:
            return 0

        def close(self) -> None:
            self.closed = True
            cluster.drop_closed()

    connections = [Beside(), Beside()]
    cluster._connections = {(n, ""): each for n, each in enumerate(connections)}  # type: ignore[misc]
    cluster.close()
    assert all(each.closed for each in connections)
