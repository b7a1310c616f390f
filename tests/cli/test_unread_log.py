"""A reader of the log that does not read stops neither the broker nor its stop."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.cli.command import barnabas
from tests.ports import free_ports_from
from tests.process import BROKERS, BrokerProcess
from tests.raw import RawClient
from tests.waiting import WAIT_S, until

pytestmark = pytest.mark.slow

BAD_REQUEST = b"\x00\x00\x00\x04junk"
BAD_REQUESTS = 2_000


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker, and the end of its log that nobody reads."""
    path = tmp_path / "log"
    os.mkfifo(path)
    reads = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    options = {"metrics.listen": f"127.0.0.1:{free_ports_from(1)}"}
    broker = BrokerProcess(tmp_path / "data", options, log=path).start()
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
    client = RawClient(broker.host, broker.port)
    client.call(MetadataRequest(topics=[]), 12, MetadataResponse)
    client.close()
    assert broker.stop() == 0


@pytest.mark.skipif(BROKERS > 1, reason="one broker shows it")
def test_a_reader_that_returns_sees_how_many_lines_were_dropped(
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

    until(
        lambda: 0 < dropped() >= BAD_REQUESTS - said.count(b"connection closed"),
        lambda: said[-2_000:],
    )


@pytest.mark.skipif(BROKERS > 1, reason="one broker shows it")
def test_status_and_metrics_show_how_well_a_broker_is(unread: tuple[BrokerProcess, int]) -> None:
    broker, _ = unread
    fill_the_log(broker)
    ended = barnabas("status", "-J", servers=broker.bootstrap_servers)
    [shown] = json.loads(ended.out)["brokers"]
    assert shown["log_lines_dropped"] > 0
    assert 0 <= shown["loop_delay_ms_p99"] < 60_000
    assert 0 < shown["open_files"] < shown["open_files_max"]
    assert shown["disks"] == "online"
    assert shown["log_dirs"] == [{"path": str(broker.data), "state": "online", "reason": ""}]
    with urlopen(f"http://{broker._options['metrics.listen']}/metrics", timeout=WAIT_S) as page:
        metrics = page.read().decode()
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line[0] != "#")
    assert float(values["barnabas_log_lines_dropped_total"]) >= shown["log_lines_dropped"]
    assert float(values["barnabas_loop_delay_seconds_p99"]) >= 0
    assert float(values["barnabas_open_files"]) > 0
    assert float(values["barnabas_open_files_max"]) == shown["open_files_max"]
    assert float(values[f'barnabas_log_dir_state{{path="{broker.data}",state="online"}}']) == 1
    table = barnabas("status", servers=broker.bootstrap_servers).out
    assert "LOOP DELAY MS P99" in table
