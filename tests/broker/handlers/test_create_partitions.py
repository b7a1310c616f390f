"""CreatePartitions: topics grow, and never shrink."""

import pytest

from barnabas.broker.requests.placement import PARTITIONS_MAX
from barnabas.model.errors import Code
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.broker.running import Running


def growing(
    name: str, count: int, replicas: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    assignments = None
    if replicas is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in replicas]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


async def grow(
    running: Running,
    *topics: CreatePartitionsTopic,
    version: int = 3,
    validate_only: bool = False,
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(
        topics=list(topics), timeout_ms=1000, validate_only=validate_only
    )
    return (await running.ask(request, CreatePartitionsResponse, version)).results


def partitions(running: Running, topic: str) -> int:
    return len(running.broker.topics.existing(topic).partitions)


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_in_every_version(running: Running, version: int) -> None:
    await running.create("t", 2)
    (result,) = await grow(running, growing("t", 5), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert partitions(running, "t") == 5
    await running.produce("t", 1_700_000_000_000, partition=4)


@pytest.mark.parametrize("count", [2, 1, 0, -1, PARTITIONS_MAX + 1, 2**31 - 1])
async def test_a_topic_only_grows_and_not_without_bound(running: Running, count: int) -> None:
    await running.create("t", 2)
    (result,) = await grow(running, growing("t", count))
    assert result.error_code == Code.INVALID_PARTITIONS
    assert str(count) in (result.error_message or "")
    assert partitions(running, "t") == 2


async def test_the_error_says_which_of_the_two_bounds_was_broken(running: Running) -> None:
    await running.create("t", 2)
    (few,) = await grow(running, growing("t", 2))
    (many,) = await grow(running, growing("t", PARTITIONS_MAX + 1))
    assert few.error_message == (
        "topic t has 2 partitions, and 2 are requested; the number of partitions can only grow"
    )
    assert many.error_message == (
        f"{PARTITIONS_MAX + 1} partitions are requested for topic t; a topic can have at most"
        f" {PARTITIONS_MAX}"
    )


async def test_validate_only_adds_nothing(running: Running) -> None:
    await running.create("t", 2)
    good, bad = await grow(running, growing("t", 3), growing("x", 3), validate_only=True)
    assert (good.error_code, bad.error_code) == (0, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert partitions(running, "t") == 2


async def test_one_bad_topic_does_not_hinder_another(running: Running) -> None:
    await running.create("t")
    bad, good = await grow(running, growing("../x", 3), growing("t", 3))
    assert (bad.error_code, good.error_code) == (Code.UNKNOWN_TOPIC_OR_PARTITION, 0)


async def test_a_topic_named_twice_does_not_grow(running: Running) -> None:
    await running.create("t")
    (result,) = await grow(running, growing("t", 2), growing("t", 3))
    assert (result.name, result.error_code) == ("t", Code.INVALID_REQUEST)
    assert partitions(running, "t") == 1


async def test_each_new_partition_may_be_assigned_to_the_one_broker(running: Running) -> None:
    await running.create("t", 2)
    (result,) = await grow(running, growing("t", 4, [[1], [1]]))
    assert result.error_code == 0
    assert partitions(running, "t") == 4


@pytest.mark.parametrize(
    "replicas", [[], [[1]], [[1], [1], [1]], [[1], [2]], [[1], []], [[1, 1], [1]]]
)
async def test_new_partitions_can_be_assigned_in_no_other_way(
    running: Running, replicas: list[list[int]]
) -> None:
    await running.create("t", 2)
    (result,) = await grow(running, growing("t", 4, replicas))
    assert result.error_code == Code.INVALID_REPLICA_ASSIGNMENT
    assert partitions(running, "t") == 2
