"""Hundreds of partitions on three brokers, which go away and come back under clients that retry.

The same with ten thousand is in `make bench` (bench/many.py).
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.crowd import Crowd
from tests.cluster.many import REPLICATED, create, in_sync, numbered
from tests.process import ClusterProcess
from tests.waiting import until

TOPICS = 3
PARTITIONS = 100  # of each


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    running = ClusterProcess(3, tmp_path / "data", REPLICATED, log=tmp_path / "log")
    running.start()
    yield running
    if running.is_running():
        running.stop()


def test_clients_that_retry_see_no_error_whatever_becomes_of_the_brokers(
    cluster: ClusterProcess,
) -> None:
    names = [f"many-{number}" for number in range(TOPICS)]
    for name in names:
        create((cluster.host, cluster.port), name, PARTITIONS)

    def whole() -> bool:
        with suppress(OSError):  # the one that is asked is away
            return in_sync((cluster.host, cluster.port), names, brokers=3) == TOPICS * PARTITIONS
        return False

    until(whole)
    places = [(name, index) for name in names for index in range(PARTITIONS)]
    crowd = Crowd(cluster.bootstrap_servers, places)
    crowd.start()
    try:
        crowd.go_on()
        for number, how in ((2, signal.SIGTERM), (3, signal.SIGKILL), (1, signal.SIGKILL)):
            os.kill(numbered(cluster)[number], how)
            crowd.go_on()
            until(whole)
        assert cluster.stop() == 0
        cluster.start()
        crowd.go_on()
        until(whole)
        assert crowd.finish() > 0
    finally:
        crowd.abandon()
    assert cluster.stop() == 0
    cluster.check_log()
