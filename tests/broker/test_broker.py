"""The broker as a whole: what survives a stop, what a crash changes, limits, metrics."""

import errno
import os
from pathlib import Path

import pytest

from barnabas.broker.metrics import page
from barnabas.keeper import paths
from barnabas.keeper.memory import MemoryKeeper
from barnabas.log.directory.checkpoints import CLEAN_SHUTDOWN, HIGH_WATERMARK
from barnabas.model.errors import Code, Failed
from barnabas.system.disk import SystemDisk, SystemFile
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.broker.running import creatable, running_broker
from tests.broker.sick_disks import SickDisk

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


async def test_a_stop_whose_sync_failed_does_not_sync_again(tmp_path: Path) -> None:
    """The stop after a failed start is repeated if it fails: the second sync would succeed without
    writing anything."""
    disk = SickDisk()
    async with running_broker(tmp_path, disk=disk) as running:
        await running.create("t")
        await running.produce("t", TIME)
        disk.broken[str(tmp_path / "t-0")] = errno.EIO
        with pytest.raises(OSError, match="sick"):
            await running.broker.stop()
        disk.broken.clear()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


async def test_a_lost_partition_directory_comes_back_empty_with_a_warning(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as running:
        await running.create("t", partitions=2)
        assert "missing" not in running.log.getvalue()
    for file in (tmp_path / "t-0").iterdir():
        file.unlink()
    (tmp_path / "t-0").rmdir()
    async with running_broker(tmp_path, keeper=keeper) as running:
        (warning,) = [line for line in running.log.getvalue().splitlines() if "missing" in line]
        assert "t-0" in warning
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


async def test_a_full_disk_puts_checkpoints_off_until_there_is_room(tmp_path: Path) -> None:
    disk = SmallDisk()
    async with running_broker(tmp_path, disk=disk) as running:
        await running.create("t")
        await running.produce("t", TIME)
        disk.full = True
        for _ in range(2):
            await running.broker.logs.log_directories[0].checkpoint()
        assert not running.broker.failure
        assert running.log.getvalue().count("checkpoint not written") == 1
        disk.full = False
        await running.broker.logs.log_directories[0].checkpoint()
        assert running.log.getvalue().count("there is disk space again") == 1
        assert (tmp_path / HIGH_WATERMARK).read_bytes() == b"0\n1\nt 0 1\n"
        assert not list(tmp_path.glob("*.tmp"))


async def test_another_fault_of_the_only_disk_ends_the_broker(tmp_path: Path) -> None:
    disk = SmallDisk()
    async with running_broker(tmp_path, disk=disk) as running:
        await running.create("t")
        disk.full, disk.error = True, errno.EIO
        await running.broker.logs.log_directories[0].checkpoint()
        assert running.broker.failure == "no log directory is online"
        assert "checkpoint failed" in running.log.getvalue()


async def test_a_topic_that_finds_no_room_is_not_there_afterwards(tmp_path: Path) -> None:
    disk, keeper = SmallDisk(), MemoryKeeper()
    request = CreateTopicsRequest(topics=[creatable("t", 5, configs={"segment.bytes": "1048576"})])
    async with running_broker(tmp_path, keeper=keeper, disk=disk) as running:
        disk.logs_left = 3
        for _ in range(2):
            (result,) = (await running.ask(request, CreateTopicsResponse)).topics
            assert result.error_code == Code.KAFKA_STORAGE_ERROR
            assert "No space left" in (result.error_message or "")
        assert not keeper.exists(paths.topic("t"))
        assert not keeper.exists(paths.topic_config("t"))
        assert not [log for log in tmp_path.glob("t-*") if not log.name.endswith("-delete")]
        disk.logs_left = 5
        await running.create("t", partitions=5)
    async with running_broker(tmp_path, keeper=keeper) as running:
        assert len(running.broker.topics.existing("t").partitions) == 5
        assert "renamed" not in running.log.getvalue()


async def test_partitions_that_find_no_room_are_reported_and_those_created_stay(
    tmp_path: Path,
) -> None:
    disk, keeper = SmallDisk(), MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper, disk=disk) as running:
        await running.create("t")
        topic = running.broker.topics.existing("t")
        disk.logs_left = 2
        with pytest.raises(Failed, match="has 3 partitions, not 9"):
            await running.broker.catalog.add_partitions(topic, 9)
        assert len(topic.partitions) == 3
    async with running_broker(tmp_path, keeper=keeper) as running:
        assert len(running.broker.topics.existing("t").partitions) == 3


class SmallDisk(SystemDisk):
    """A disk that can be full: for whole files, or after some more logs."""

    def __init__(self) -> None:
        self.full = False
        self.error = errno.ENOSPC
        self.logs_left = 1000

    def replace_file(self, path: str, data: bytes) -> None:
        if self.full:
            raise OSError(self.error, os.strerror(self.error), path)
        super().replace_file(path, data)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        if create and path.endswith(".log"):
            if not self.logs_left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            self.logs_left -= 1
        return super().open(path, create=create)


async def test_the_metrics_page_counts_what_was_done(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t")
        await running.produce("t", TIME, TIME, TIME)
        text = (await page(running.broker)).decode()
    assert "barnabas_appends_total 1.0" in text
    assert 'barnabas_requests_total{api="Produce"} 1.0' in text
    assert 'barnabas_log_end_offset{partition="0",topic="t"} 3.0' in text
    assert "barnabas_connections 1.0" in text
