"""A newcomer is answered soon, however much others have asked for before it."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.wire.frames import request_frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.process import BROKERS, BrokerProcess, cpu_s
from tests.raw import FETCH_BY_NAME, RawClient, batch_of, fetch_request

TOPIC = "orders"
CONNECTIONS = 300
FETCHES = 200
BATCHES, BATCH_BYTES = 16, 256 * 1024
CPU_S_MAX = 3.0  # of the broker; ten seconds if the newcomer waits for the others


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data", log=tmp_path / "log").start()
    yield broker
    broker.kill()


@pytest.mark.skipif(BROKERS > 1, reason="one broker shows it")
def test_a_newcomer_does_not_wait_for_pipelined_fetches_of_other_connections(
    broker: BrokerProcess,
) -> None:
    with ExitStack() as open_:

        def connected() -> RawClient:
            return open_.enter_context(RawClient(broker.host, broker.port))

        first = connected()
        assert first.create_topic(TOPIC) == 0
        for _ in range(BATCHES):
            assert first.produce(TOPIC, batch_of(os.urandom(BATCH_BYTES))).error_code == 0
        request = fetch_request(TOPIC, 0, 0, bytes_max=1 << 20)
        fetches = b"".join(
            request_frame(request.api_key, FETCH_BY_NAME, number, "busy", request)
            for number in range(FETCHES)
        )
        busy = [connected() for _ in range(CONNECTIONS)]
        newcomer = connected()
        os.kill(broker.pid, signal.SIGSTOP)  # so that all of it is there at once
        for each in busy:
            each.send(fetches)
        newcomer.begin(ApiVersionsRequest(), 0)
        began_s = cpu_s(broker)
        os.kill(broker.pid, signal.SIGCONT)
        newcomer.receive()
        used_s = cpu_s(broker) - began_s
        assert newcomer.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
    assert used_s < CPU_S_MAX
