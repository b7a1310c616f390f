"""A ZooKeeper for all tests here, and one that a test may kill."""

from collections.abc import Iterator

import pytest

from tests.support.zookeeper import Zookeeper, running_zookeeper
from tests.zookeeper.rooms import ZookeeperRoom


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def room(shared_server: Zookeeper) -> Iterator[ZookeeperRoom]:
    room = ZookeeperRoom(shared_server)
    yield room
    room.close()
