"""The contract of every keeper, put to a real ZooKeeper; and the model of all histories with it."""

import pytest

from tests.keeper.contract import Contract
from tests.keeper.histories import play
from tests.zookeeper.rooms import ZookeeperRoom


class TestZookeeper(Contract):
    """`room` comes from conftest.py."""


@pytest.mark.parametrize("seed", range(12))
def test_whatever_two_sessions_do_zookeeper_answers_as_the_model(
    seed: int, room: ZookeeperRoom
) -> None:
    play(seed, room)
