"""A ZooKeeper for the tests of a module; and its cluster, whole before each test."""

from collections.abc import Iterator

import pytest

from tests.cluster.members import Cluster
from tests.support.zookeeper import Zookeeper, running_zookeeper


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """All brokers of the module's `shared` cluster run, before the test and after it."""
    shared.wait_whole()
    yield shared
    for member in shared.members.values():
        if not member.is_running():
            member.restart()
