"""Ten thousand clients that are connected and quiet."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.wire.records import decode_batch
from tests.process import BrokerProcess
from tests.raw import RawClient, batch_of, records_in
from tests.waiting import WAIT_S

CONNECTIONS = 10_000
MEMORY_MAX = 300 * 1024 * 1024
SPARE = 500


@pytest.mark.alone
def test_ten_thousand_idle_connections_fit_and_others_are_served(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CONNECTIONS + SPARE:
        pytest.skip(f"{hard} open files are allowed, {CONNECTIONS + SPARE} are needed (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    broker = BrokerProcess(tmp_path / "data", log=tmp_path / "log").start()
    try:
        with ExitStack() as held:
            for _ in range(CONNECTIONS):
                idle = held.enter_context(socket.socket())
                idle.settimeout(WAIT_S)
                idle.connect((broker.host, broker.port))
            with RawClient(broker.host, broker.port) as client:
                client.create_topic("t")
                assert client.produce("t", batch_of(b"v")).base_offset == 0
                (record,) = decode_batch(records_in(client.fetch("t", 0)))
                assert record.value == b"v"
            status = Path(f"/proc/{broker.pid}/status").read_text()
            (rss,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
            assert int(rss.split()[1]) * 1024 < MEMORY_MAX
        assert "refused" not in broker.log
    finally:
        broker.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    broker.check_log()
