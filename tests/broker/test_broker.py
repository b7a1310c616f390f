"""The broker as a whole: what survives a stop, what a crash changes, limits, metrics."""

from pathlib import Path

import pytest

from barnabas.broker.metrics import page
from barnabas.keeper.memory import MemoryKeeper
from barnabas.log.checkpoints import CLEAN_SHUTDOWN
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.running import running_broker

TIME = 1_700_000_000_000


async def test_topics_configuration_and_records_survive_a_clean_stop(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as running:
        await running.create("t", partitions=3, configs={"segment.bytes": "1048576"})
        await running.produce("t", TIME, TIME, partition=2)
        id_, cluster = running.broker.topics.existing("t").id, running.broker.cluster_id
    async with running_broker(tmp_path, keeper=keeper) as running:
        topic = running.broker.topics.existing("t")
        assert (topic.id, running.broker.cluster_id) == (id_, cluster)
        assert topic.config.segment_bytes == 1048576
        assert [p.log.end_offset for p in topic.partitions] == [0, 0, 2]
        assert [p.log.high_watermark for p in topic.partitions] == [0, 0, 2]
        assert [p.leader_epoch for p in topic.partitions] == [0, 0, 0]


async def test_after_a_crash_partitions_with_records_begin_a_new_leader_epoch(
    tmp_path: Path,
) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as running:
        await running.create("t", partitions=2)
        await running.produce("t", TIME)
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    async with running_broker(tmp_path, keeper=keeper) as running:
        topic = running.broker.topics.existing("t")
        assert [p.leader_epoch for p in topic.partitions] == [1, 0]
    async with running_broker(tmp_path, keeper=keeper) as running:
        topic = running.broker.topics.existing("t")
        assert [p.leader_epoch for p in topic.partitions] == [1, 0]


async def test_a_lost_partition_directory_comes_back_empty(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as running:
        await running.create("t")
    for file in (tmp_path / "t-0").iterdir():
        file.unlink()
    (tmp_path / "t-0").rmdir()
    async with running_broker(tmp_path, keeper=keeper) as running:
        await running.produce("t", TIME)
        assert running.broker.topics.existing("t").partition(0).log.end_offset == 1


@pytest.mark.parametrize("option", ["max.connections", "max.connections.per.ip"])
async def test_connections_over_a_limit_are_refused_with_its_name(
    tmp_path: Path, option: str
) -> None:
    async with running_broker(tmp_path, {option: "2"}) as running:
        second, third = running.connect(), running.connect()
        assert not second.closed
        assert third.closed
        assert option in running.log.getvalue()
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        await running.ask(request, ApiVersionsResponse, wire=second)


async def test_a_closed_connection_makes_room_for_another(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"max.connections": "1"}) as running:
        (connection,) = running.broker.connections
        connection.close("")
        assert not running.connect().closed


async def test_the_metrics_page_counts_what_was_done(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t")
        await running.produce("t", TIME, TIME, TIME)
        text = page(running.broker).decode()
    assert "barnabas_appends_total 1.0" in text
    assert 'barnabas_requests_total{api="Produce"} 1.0' in text
    assert 'barnabas_log_end_offset{partition="0",topic="t"} 3.0' in text
    assert "barnabas_connections 1.0" in text
