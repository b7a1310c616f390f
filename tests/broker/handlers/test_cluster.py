"""DescribeCluster, DescribeTopicPartitions, DescribeLogDirs."""

from pathlib import Path

import pytest

from barnabas.broker.requests.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.broker.running import PORT, Running, running_broker

# --- DescribeCluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
async def test_the_one_broker_is_also_the_controller(running: Running, version: int) -> None:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=version >= 2
    )
    response = await running.ask(request, DescribeClusterResponse, version)
    assert (response.error_code, response.controller_id) == (0, 1)
    assert response.cluster_id == running.broker.cluster_id
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, "broker.example", PORT)
    assert not broker.is_fenced
    assert response.cluster_authorized_operations == NOT_ASKED


async def test_operations_on_the_cluster_are_said_when_asked_for(running: Running) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = await running.ask(request, DescribeClusterResponse)
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, Code.MISMATCHED_ENDPOINT_TYPE),
        (3, Code.UNSUPPORTED_ENDPOINT_TYPE),
        (0, Code.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_controllers_are_asked_elsewhere(
    running: Running, endpoint_type: int, code: Code
) -> None:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=endpoint_type
    )
    response = await running.ask(request, DescribeClusterResponse, 1)
    assert (response.error_code, response.brokers) == (code, [])
    assert response.error_message


# --- DescribeTopicPartitions ----------------------------------------------------------------------

Page = tuple[list[tuple[str | None, list[int]]], tuple[str, int] | None]


async def page(
    running: Running, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Page:
    """Topics with the partitions of each, and the next cursor."""
    response = await ask_page(running, *names, limit=limit, cursor=cursor)
    following = response.next_cursor
    return (
        [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics],
        None if following is None else (following.topic_name, following.partition_index),
    )


async def ask_page(
    running: Running, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return await running.ask(request, DescribeTopicPartitionsResponse)


async def test_a_topic_is_described_in_full(running: Running) -> None:
    created = await running.create("a", 2)
    (topic,) = (await ask_page(running, "a")).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "a", created.topic_id)
    assert topic.topic_authorized_operations == TOPIC_OPERATIONS
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.offline_replicas == partition.eligible_leader_replicas == []
        assert partition.last_known_elr == []


async def test_topics_come_in_the_order_of_their_names_and_none_named_means_all(
    running: Running,
) -> None:
    for name in ("c", "a", "b"):
        await running.create(name)
    everything: Page = ([("a", [0]), ("b", [0]), ("c", [0])], None)
    assert await page(running) == everything
    assert await page(running, "c", "a", "b", "a") == everything


async def test_missing_topics_and_bad_names_are_distinguished(running: Running) -> None:
    bad, missing = (await ask_page(running, "missing", "../x")).topics
    assert (bad.name, bad.error_code) == ("../x", Code.INVALID_TOPIC_EXCEPTION)
    assert (missing.name, missing.error_code) == ("missing", Code.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
async def test_pages_put_together_are_the_whole(running: Running, limit: int) -> None:
    await running.create("a", 2)
    await running.create("b", 1)
    await running.create("c", 3)
    found: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        topics, cursor = await page(running, limit=limit, cursor=cursor)
        read = [(name, index) for name, indexes in topics for index in indexes]
        assert 0 < len(read) <= limit
        found += read
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1), ("c", 2)]


async def test_a_page_is_never_empty_and_never_larger_than_the_broker_allows(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, {"max.request.partition.size.limit": "2"}) as running:
        await running.create("a", 3)
        assert await page(running, limit=0) == ([("a", [0])], ("a", 1))
        assert await page(running, limit=-5) == ([("a", [0])], ("a", 1))
        assert await page(running, limit=1000) == ([("a", [0, 1])], ("a", 2))


async def test_a_cursor_may_point_at_what_has_gone(running: Running) -> None:
    await running.create("a", 2)
    await running.create("c", 1)
    assert await page(running, cursor=("b", 0)) == ([("c", [0])], None)
    assert await page(running, "a", "c", cursor=("a", 9)) == ([("a", []), ("c", [0])], None)


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
async def test_a_cursor_that_no_page_ended_with_is_refused(
    running: Running, cursor: tuple[str, int]
) -> None:
    await running.create("a")
    (topic,) = (await ask_page(running, "a", cursor=cursor)).topics
    assert (topic.name, topic.error_code) == ("a", Code.INVALID_REQUEST)


# --- DescribeLogDirs ------------------------------------------------------------------------------


async def directory(
    running: Running, topics: dict[str, list[int]] | None, version: int = 5
) -> DescribeLogDirsResult:
    request = DescribeLogDirsRequest(
        topics=None
        if topics is None
        else [
            DescribableLogDirTopic(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
    )
    response = await running.ask(request, DescribeLogDirsResponse, version)
    assert response.error_code == 0
    (result,) = response.results
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
async def test_the_directory_the_disk_and_every_partition_are_described(
    running: Running, tmp_path: Path, version: int
) -> None:
    await running.create("a", 2)
    await running.produce("a", 1000, partition=1)
    result = await directory(running, None, version)
    assert (result.error_code, result.log_dir) == (0, str(tmp_path))
    (log,) = (tmp_path / "a-1").glob("*.log")
    assert sizes(result) == {("a", 0): 0, ("a", 1): log.stat().st_size}
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes
    assert not result.is_cordoned


async def test_what_is_not_there_is_left_out(running: Running) -> None:
    await running.create("a", 2)
    result = await directory(running, {"a": [1, 9], "missing": [0]})
    assert list(sizes(result)) == [("a", 1)]
    assert sizes(await directory(running, {})) == {}


async def test_a_disk_that_does_not_answer_is_an_error_of_its_directory(
    running: Running, tmp_path: Path
) -> None:
    running.broker.logs.log_directories[0].path = f"{tmp_path}/unmounted"
    assert (await directory(running, None)).error_code == Code.KAFKA_STORAGE_ERROR
    running.broker.logs.log_directories[0].path = str(tmp_path)
