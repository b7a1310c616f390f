"""A partition's role: the table of legal changes."""

import pytest

from barnabas.broker.partition_errors import not_served
from barnabas.broker.role import NEXT, Role
from barnabas.broker.storage.partition_opening import offline_partition
from barnabas.model.errors import Code
from barnabas.model.ids import BrokerId, TopicPartition

T0 = TopicPartition("t", 0)


def test_every_role_has_a_row_and_can_end() -> None:
    assert list(NEXT) == list(Role)
    assert all(Role.CLOSED in after for after in NEXT.values())


def test_an_offline_partition_stays_offline_until_its_log_is_given_up() -> None:
    partition = offline_partition(T0, BrokerId(1), "broken")
    assert not_served(partition).code is Code.KAFKA_STORAGE_ERROR
    with pytest.raises(AssertionError, match="OFFLINE cannot become"):
        partition.stop()
    partition.drop_log()
    assert partition.role is Role.ABSENT
    assert not_served(partition).code is Code.NOT_LEADER_OR_FOLLOWER
