"""A reader of the log that does not read stops neither the broker nor its stop."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.process import BROKERS, BrokerProcess
from tests.raw import RawClient
from tests.waiting import until

BAD_REQUEST = b"\x00\x00\x00\x04junk"
BAD_REQUESTS = 2_000


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker, and the end of its log that nobody reads."""
    path = tmp_path / "log"
    os.mkfifo(path)
    reads = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    broker = BrokerProcess(tmp_path / "data", log=path)
    broker.start()
    yield broker, reads
    if broker.is_running():
        broker.kill()
    os.close(reads)


def fill_the_log(broker: BrokerProcess) -> None:
    for _ in range(BAD_REQUESTS):
        client = RawClient(broker.host, broker.port)
        client.send(BAD_REQUEST)
        client.wait_closed()
        client.close()


@pytest.mark.skipif(BROKERS > 1, reason="one broker shows it")
def test_a_broker_whose_log_nobody_reads_goes_on_and_stops_when_asked(
    unread: tuple[BrokerProcess, int],
) -> None:
    broker, _ = unread
    fill_the_log(broker)
    client = RawClient(broker.host, broker.port, timeout_s=10)
    client.call(MetadataRequest(topics=[]), 12, MetadataResponse)
    client.close()
    assert broker.stop() == 0


@pytest.mark.skipif(BROKERS > 1, reason="one broker shows it")
def test_a_reader_that_returns_is_told_how_many_lines_were_dropped(
    unread: tuple[BrokerProcess, int],
) -> None:
    broker, reads = unread
    fill_the_log(broker)
    said = b""

    def dropped() -> int:
        nonlocal said
        with suppress(BlockingIOError):
            said += os.read(reads, 1 << 20)
        lines = map(json.loads, said.rpartition(b"\n")[0].splitlines())
        return sum(line["count"] for line in lines if line["event"] == "log lines dropped")

    until(lambda: dropped() > 0, lambda: said[-2_000:])
    assert dropped() + said.count(b"connection closed") >= BAD_REQUESTS
