"""How the sockets of both drivers end."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from barnabas.client.aio.connection import AsyncioConnection
from barnabas.client.blocking.connection import BlockingConnection
from barnabas.client.sockets import QuietSocket, new_socket
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, Retriable
from tests.waiting import WAIT_S

TIMEOUT_MS = 50


def ask_blocking(opened: QuietSocket, address: Address) -> None:
    BlockingConnection(opened, address, "t").greet(TIMEOUT_MS)


def ask_asyncio(opened: QuietSocket, address: Address) -> None:
    async def greet() -> None:
        opened.setblocking(False)
        loop = asyncio.get_running_loop()
        await AsyncioConnection(loop, opened, address, "t").greet(TIMEOUT_MS)

    asyncio.run(greet())


@pytest.mark.parametrize("ask", [ask_asyncio, ask_blocking])
def test_a_connection_whose_request_was_not_answered_in_time_is_reset(
    ask: Callable[[QuietSocket, Address], None],
) -> None:
    """The kernel must not deliver the request later, after those of the next connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address(*listener.getsockname())
        client = new_socket(socket.AF_INET)
        client.connect((address.host, address.port))
        server, _ = listener.accept()
        with pytest.raises(Retriable) as late:
            ask(client, address)
        assert late.value.code is Code.REQUEST_TIMED_OUT
        with server:
            server.settimeout(WAIT_S)
            server.recv(1 << 16)  # the request, which had arrived
            with pytest.raises(ConnectionResetError):
                server.recv(1)
