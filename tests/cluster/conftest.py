"""A ZooKeeper for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.support.zookeeper import Zookeeper, zookeeper_or_skip


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    running = zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper"))
    yield running
    running.kill()
