"""The doors and cuts that the faults are made of."""

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from barnabas.broker.cluster_member import PEER
from tests.cluster.proxy import Network
from tests.waiting import WAIT_S


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while piece := self.request.recv(4096):
            self.request.sendall(piece)


@pytest.fixture
def echo() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def call(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), WAIT_S)


def first_request(client_id: str) -> bytes:
    name = client_id.encode()
    return struct.pack(">ihhih", 10 + len(name), 3, 12, 1, len(name)) + name


def comes(connection: socket.socket, expected: bytes) -> bool:
    found = b""
    while len(found) < len(expected) and (piece := connection.recv(4096)):
        found += piece
    return found == expected


def nothing_comes(connection: socket.socket) -> bool:
    """Within a moment, or ever: the other end is closed."""
    connection.settimeout(0.2)
    try:
        return not connection.recv(1)
    except (TimeoutError, ConnectionError):
        return True
    finally:
        connection.settimeout(WAIT_S)


def test_bytes_pass_both_ways(network: Network, echo: int) -> None:
    door = network.door("broker-1", echo, caller="broker-2")
    with call(door.port) as connection:
        connection.sendall(b"hello")
        assert comes(connection, b"hello")


def test_a_cut_holds_back_one_way_until_it_is_healed(network: Network, echo: int) -> None:
    door = network.door("broker-1", echo, caller="broker-2")
    for way in (("broker-2", "broker-1"), ("broker-1", "broker-2")):
        with call(door.port) as connection:
            network.cut(way)
            connection.sendall(b"late")
            assert nothing_comes(connection)
            network.heal()
            assert comes(connection, b"late")


def test_a_cut_between_others_holds_back_nothing(network: Network, echo: int) -> None:
    door = network.door("broker-1", echo, caller="broker-2")
    network.cut(("broker-3", "broker-1"), ("broker-1", "broker-3"))
    with call(door.port) as connection:
        connection.sendall(b"hello")
        assert comes(connection, b"hello")


def test_healing_can_break_what_was_held_back(network: Network, echo: int) -> None:
    door = network.door("broker-1", echo, caller="broker-2")
    with call(door.port) as connection:
        connection.sendall(b"hello")
        assert comes(connection, b"hello")
        network.cut(("broker-2", "broker-1"))
        connection.sendall(b"late")
        network.heal(breaking=True)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_brokers_are_known_by_their_first_request_and_clients_pass(
    network: Network, echo: int
) -> None:
    door = network.door("broker-1", echo)
    network.cut(("broker-2", "broker-1"))
    with call(door.port) as connection:
        connection.sendall(first_request("rdkafka"))
        assert comes(connection, first_request("rdkafka"))
    with call(door.port) as connection:
        wanted = first_request(f"{PEER}2")
        connection.sendall(wanted[:7])
        connection.sendall(wanted[7:])
        assert nothing_comes(connection)
        network.heal()
        assert comes(connection, wanted)


def test_a_door_to_nobody_is_shut(network: Network) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        door = network.door("broker-1", held.getsockname()[1])
        with call(door.port) as connection:
            assert nothing_comes(connection)
