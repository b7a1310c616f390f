"""A client over its quota: the broker does not read its requests for a while, and the client gives
them that much more time."""

import asyncio
from collections.abc import Iterator
from time import monotonic

import pytest

from barnabas.client.aio.connection import connect as connect_asyncio
from barnabas.client.blocking.connection import connect as connect_blocking
from barnabas.config.kinds import Address
from barnabas.sync import Admin
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.process import BrokerProcess

pytestmark = pytest.mark.slow

WINDOW_S = 16  # requests over their time wait for one window
TIMEOUT_MS = 15_000  # for the answer, once the broker has read the request
EVERYTHING = MetadataRequest(topics=None)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    log = tmp_path_factory.mktemp("throttled") / "broker.log"
    broker = BrokerProcess(None, {"quota.window.size.seconds": str(WINDOW_S)}, log=log).start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_quota({"client-id": "limited"}, {"request_percentage": 1e-9})
    yield Address(broker.host, broker.port)
    broker.stop()


def test_a_blocking_request_waits_longer_than_its_timeout_while_it_is_not_read(
    address: Address,
) -> None:
    connection = connect_blocking(address, client_id="limited", timeout_ms=600_000)
    began = monotonic()
    pending = connection.send(EVERYTHING, MetadataResponse, timeout_ms=TIMEOUT_MS)
    assert not pending.done()
    assert connection.silent_ms() == 0, "it is not the broker's fault"
    assert pending.wait().throttle_time_ms == WINDOW_S * 1000
    assert monotonic() - began > TIMEOUT_MS / 1000
    connection.close()


async def test_an_asyncio_request_waits_longer_than_its_timeout_while_it_is_not_read(
    address: Address,
) -> None:
    connection = await connect_asyncio(address, client_id="limited", timeout_ms=600_000)
    loop = asyncio.get_running_loop()
    began = loop.time()
    first = connection.send(EVERYTHING, MetadataResponse, timeout_ms=TIMEOUT_MS)
    second = connection.send(EVERYTHING, MetadataResponse, timeout_ms=TIMEOUT_MS)
    assert connection.silent_ms() == 0
    assert (await first).throttle_time_ms == WINDOW_S * 1000
    assert loop.time() - began > TIMEOUT_MS / 1000
    await second  # it was pending when the first was answered
    assert loop.time() - began > 2 * TIMEOUT_MS / 1000
    connection.close()
