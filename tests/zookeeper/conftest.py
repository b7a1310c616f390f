"""A ZooKeeper for all tests here, and one that a test may kill."""

from collections.abc import Iterator

import pytest

from tests.peers.cache import Missing
from tests.peers.zookeeper import Zookeeper
from tests.zookeeper.rooms import ZookeeperRoom


def _server(tmp_path_factory: pytest.TempPathFactory) -> Zookeeper:
    pytest.importorskip("kazoo", reason="kazoo is not installed: pip install -e '.[zookeeper]'")
    try:
        return Zookeeper(tmp_path_factory.mktemp("zookeeper"))
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    server = _server(tmp_path_factory)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    server = _server(tmp_path_factory)
    yield server
    server.kill()


@pytest.fixture
def room(shared_server: Zookeeper) -> Iterator[ZookeeperRoom]:
    room = ZookeeperRoom(shared_server)
    yield room
    room.close()
