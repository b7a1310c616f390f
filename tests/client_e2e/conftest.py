"""The broker that a test talks to: every test that asks for `served` runs once for each kind.

`served` is shared, so a test takes topics and groups of its own (`topic`). `own_broker` belongs
to one test, which may kill and restart it.
"""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.net import run
from barnabas.model.errors import InvalidRequest
from barnabas.wire.messages.share_fetch import ShareFetchRequest
from tests.process import BROKERS, KEPT, running_broker
from tests.secured import SECURED
from tests.support import kafka as kafka_peer

# Several brokers are put to the test only where they are ours.
KINDS = ("barnabas", "kafka") if BROKERS == 1 and not SECURED else ("barnabas",)
_numbers = itertools.count()
# Groups form at once, and internal topics do not need three brokers.
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
}


class Served(Protocol):
    """A running broker of either kind."""

    @property
    def bootstrap_servers(self) -> str: ...


class OwnBroker(Served, Protocol):
    """A broker that a test may end and start again, on the same data and port."""

    def kill(self) -> None: ...

    def start(self) -> object: ...

    def restart(self) -> None: ...


class OwnKafka:
    def __init__(self, directory: Path) -> None:
        self._properties, self._port = kafka_peer.prepare(directory, {**KEPT, **OPTIONS})
        self._running: kafka_peer.KafkaBroker | None = None
        self.start()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        self._running = kafka_peer.start(self._properties, self._port, kafka_peer.SHORT_LIVED)

    def kill(self) -> None:
        assert self._running is not None
        self._running.process.kill()
        self._running.process.wait()
        self._running = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None


@pytest.fixture(scope="session")
def _shared_barnabas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("barnabas")
    with running_broker(directory, OPTIONS) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=KINDS)
def served(request: pytest.FixtureRequest) -> Served:
    """A broker of each kind, shared by all tests."""
    name = "_shared_barnabas" if request.param == "barnabas" else "kafka"
    running: Served = request.getfixturevalue(name)
    return running


@pytest.fixture(params=KINDS)
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnBroker]:
    """A broker of each kind, this test's alone."""
    if request.param == "barnabas":
        with running_broker(tmp_path / "barnabas", OPTIONS) as running:
            yield running
        return
    request.getfixturevalue("kafka_lib")
    own = OwnKafka(tmp_path / "kafka")
    try:
        yield own
    finally:
        own.stop()


def skip_without_share_groups(served: Served) -> None:
    with open_cluster({}, {"bootstrap_servers": served.bootstrap_servers}) as cluster:
        try:
            run(cluster.anyone()).version_of(ShareFetchRequest.api_key)
        except InvalidRequest:
            pytest.skip("this broker does not offer ShareFetch")


@pytest.fixture
def group() -> str:
    """A group id no other test uses."""
    return f"group-{next(_numbers)}"
