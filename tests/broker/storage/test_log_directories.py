"""Several log directories: where logs go, disks that fail, stall or lose power."""

import errno
import threading
from pathlib import Path

import pytest

from barnabas.broker.storage import housekeeping
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.produce import ProduceResponse
from tests.broker.running import running_broker
from tests.broker.sick_disks import (
    NAMES,
    TIME,
    SickDisk,
    described,
    log_dirs,
    produced,
    request_for,
    stalled,
    values,
)
from tests.group_requests import commit_request
from tests.waiting import eventually

# --- where logs go ------------------------------------------------------------------------------


async def test_a_new_partition_goes_to_the_directory_with_the_fewest(
    tmp_path: Path, directories: list[Path]
) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, log_dirs(directories), keeper) as running:
        await running.create("a", partitions=4)
        await running.create("b", partitions=2)
        counts = {
            name: sum(len(topic.partitions) for topic in result.topics)
            for name, result in (await described(running)).items()
        }
        assert counts == {"one": 2, "two": 2, "three": 2}
        for partition in range(4):
            assert (await produced(running, "a", partition)).error_code == 0
    async with running_broker(tmp_path, log_dirs(directories), keeper) as running:
        topic = running.broker.topics.existing("a")
        assert [p.log.end_offset for p in topic.partitions] == [1, 1, 1, 1]
        assert [p.leader_epoch for p in topic.partitions] == [0, 0, 0, 0]


# --- disks that fail ----------------------------------------------------------------------------


async def test_a_directory_that_fails_goes_offline_and_the_others_go_on(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk, keeper = SickDisk(), MemoryKeeper()
    async with running_broker(tmp_path, log_dirs(directories), keeper, disk) as running:
        await running.create("t", partitions=3)
        for partition in range(3):
            assert (await produced(running, "t", partition)).error_code == 0
        disk.broken[str(directories[1])] = errno.EIO
        answer = await produced(running, "t", 1)
        assert answer.error_code == Code.KAFKA_STORAGE_ERROR
        assert answer.error_message is not None
        answer = await produced(running, "t", 1)
        assert answer.error_code == Code.KAFKA_STORAGE_ERROR
        assert "offline" in (answer.error_message or "")
        for partition in (0, 2):
            assert (await produced(running, "t", partition)).base_offset == 1
        results = await described(running)
        assert [results[name].error_code for name in NAMES] == [0, Code.KAFKA_STORAGE_ERROR, 0]
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        (topic,) = (await running.ask(request, MetadataResponse)).topics
        assert [p.offline_replicas for p in topic.partitions] == [[], [running.broker.id], []]
        assert running.log.getvalue().count("log directory offline") == 1
        assert not running.broker.failure
    disk.broken.clear()
    async with running_broker(tmp_path, log_dirs(directories), keeper, disk) as running:
        topic_ = running.broker.topics.existing("t")
        assert [p.log.end_offset for p in topic_.partitions] == [2, 1, 2]


async def test_a_full_disk_refuses_appends_and_recovers_by_itself(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t", partitions=3)
        assert (await produced(running, "t", 1)).error_code == 0
        disk.broken[str(directories[1])] = errno.ENOSPC
        assert (await produced(running, "t", 1)).error_code == Code.KAFKA_STORAGE_ERROR
        assert await values(running, "t", 1) == [b"0"]
        disk.broken.clear()
        assert (await produced(running, "t", 1)).base_offset == 1


async def test_a_directory_that_cannot_be_opened_leaves_the_others_served(
    tmp_path: Path, directories: list[Path]
) -> None:
    """Its partitions are not made again elsewhere: they would seem to have lost their records."""
    disk, keeper = SickDisk(), MemoryKeeper()
    async with running_broker(tmp_path, log_dirs(directories), keeper, disk) as running:
        await running.create("t", partitions=3)
        for partition in range(3):
            await produced(running, "t", partition)
    disk.broken[str(directories[2])] = errno.EIO
    async with running_broker(tmp_path, log_dirs(directories), keeper, disk) as running:
        codes = [(await produced(running, "t", partition)).error_code for partition in range(3)]
        assert codes == [0, 0, Code.KAFKA_STORAGE_ERROR]
        await running.create("u", partitions=2)
    disk.broken.clear()
    async with running_broker(tmp_path, log_dirs(directories), keeper, disk) as running:
        topic = running.broker.topics.existing("t")
        assert [p.log.end_offset for p in topic.partitions] == [2, 2, 1]


async def test_without_any_directory_the_broker_gives_up(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t", partitions=3)
        for number, directory in enumerate(directories):
            assert not running.broker.failure
            disk.broken[str(directory)] = errno.EIO
            await produced(running, "t", number)
        assert running.broker.failure == "no log directory is online"
        assert running.broker.stopping.is_set()


# --- flushes ------------------------------------------------------------------------------------


async def test_a_record_that_must_be_synced_is_neither_acknowledged_nor_read_before(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t", configs={"flush.messages": "1"})
        log = running.broker.topics.existing("t").partition(0).log
        wire = running.connect()
        with stalled(disk, directories[0]):
            running.send(request_for("t", 0), 12, wire)
            await eventually(lambda: log.end_offset == 1)
            assert log.high_watermark == 0
            assert await values(running, "t") == []
        response = await running.receive(request_for("t", 0), ProduceResponse, 12, wire)
        assert response.responses[0].partition_responses[0].base_offset == 0
        assert (log.high_watermark, log.durable_offset) == (1, 1)
        assert await values(running, "t") == [b"0"]


async def test_one_sync_serves_all_appends_that_wait_for_it(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t", configs={"flush.messages": "1"})
        assert (await produced(running, "t", 0)).error_code == 0  # files that are new are synced
        log = running.broker.topics.existing("t").partition(0).log
        wires = [running.connect() for _ in range(50)]
        with stalled(disk, directories[0]):
            before = disk.syncs
            for wire in wires:
                running.send(request_for("t", 0), 12, wire)
            await eventually(lambda: log.end_offset == 51)
        for wire in wires:
            response = await running.receive(request_for("t", 0), ProduceResponse, 12, wire)
            assert response.responses[0].partition_responses[0].error_code == 0
        assert disk.syncs - before <= 3
        assert log.durable_offset == 51


async def test_a_sync_that_stalls_keeps_nobody_else_waiting(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t", partitions=3, configs={"flush.messages": "1"})
        slow = running.connect()
        with stalled(disk, directories[1]):
            running.send(request_for("t", 1), 12, slow)
            for partition in (0, 2):
                assert (await produced(running, "t", partition)).error_code == 0
            request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            await running.ask(request, ApiVersionsResponse)
            assert running.broker.topics.existing("t").partition(1).log.high_watermark == 0
        response = await running.receive(request_for("t", 1), ProduceResponse, 12, slow)
        assert response.responses[0].partition_responses[0].error_code == 0


async def test_a_sync_that_fails_takes_the_directory_offline_and_is_not_tried_again(
    tmp_path: Path, directories: list[Path]
) -> None:
    """Hazard 24: a second sync may succeed though the first one's data is lost."""
    disk = SickDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t", partitions=2, configs={"flush.messages": "1"})
        log = running.broker.topics.existing("t").partition(1).log
        wire = running.connect()
        with stalled(disk, directories[1]):
            running.send(request_for("t", 1), 12, wire)
            await eventually(lambda: log.end_offset == 1)
            syncs = disk.syncs
            disk.broken[str(directories[1])] = errno.EIO
        response = await running.receive(request_for("t", 1), ProduceResponse, 12, wire)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == Code.KAFKA_STORAGE_ERROR
        assert answer.base_offset == -1
        disk.broken.clear()
        assert (await produced(running, "t", 1)).error_code == Code.KAFKA_STORAGE_ERROR
        assert disk.syncs <= syncs + 1
        assert (await produced(running, "t", 0)).error_code == 0


async def test_a_record_is_synced_when_its_time_has_come(
    tmp_path: Path, directories: list[Path]
) -> None:
    async with running_broker(tmp_path, log_dirs(directories)) as running:
        await running.create("t", configs={"flush.ms": "100"})
        assert (await produced(running, "t", 0)).error_code == 0
        log = running.broker.topics.existing("t").partition(0).log
        assert log.high_watermark == 1
        await eventually(lambda: log.durable_offset == 1)


async def test_an_offset_that_must_be_synced_is_committed_when_it_is(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    settings = {
        "log.dirs": str(directories[0]),
        "log.flush.interval.messages": "1",
        "offsets.topic.num.partitions": "1",
    }
    async with running_broker(tmp_path, settings, disk=disk) as running:
        await running.create("t")
        request = commit_request("g", {0: 7})
        finding = FindCoordinatorRequest(key="g", key_type=0)
        assert not (await running.ask(finding, FindCoordinatorResponse, 3)).error_code
        wire = running.connect()
        (offsets,) = running.broker.topics.existing("__consumer_offsets").partitions
        with stalled(disk, directories[0]):
            running.send(request, 8, wire)
            await eventually(lambda: offsets.log.end_offset == 1)
            assert offsets.log.high_watermark == 0
        response = await running.receive(request, OffsetCommitResponse, 8, wire)
        assert response.topics[0].partitions[0].error_code == 0


# --- cold reads ---------------------------------------------------------------------------------


async def test_what_is_not_in_memory_is_read_off_the_loop_and_keeps_nobody_waiting(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    settings = {**log_dirs(directories), "log.segment.bytes": "1048576"}
    async with running_broker(tmp_path, settings, disk=disk) as running:
        await running.create("t", partitions=2)
        for number in range(20):
            await running.ask(request_for("t", 1, 5000, number * 5000), ProduceResponse, 12)
        disk.cold = threading.Event()
        wire = running.connect()
        wanted = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic="t", partitions=[wanted])],
        )
        running.send(request, 12, wire)
        assert (await produced(running, "t", 0)).error_code == 0
        assert (await produced(running, "t", 1)).error_code == 0
        disk.cold.set()
        response = await running.receive(request, FetchResponse, 12, wire)
        (answer,) = response.responses[0].partitions
        assert answer.records


async def test_a_search_by_time_in_records_that_are_not_in_memory_keeps_nobody_waiting(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = SickDisk()
    settings = {**log_dirs(directories), "log.segment.bytes": "1048576"}
    async with running_broker(tmp_path, settings, disk=disk) as running:
        await running.create("t", partitions=2)
        for number in range(12):
            await running.ask(request_for("t", 1, 12_000, number * 12_000), ProduceResponse, 12)
        disk.cold = threading.Event()
        wire = running.connect()
        asked = ListOffsetsPartition(partition_index=1, current_leader_epoch=-1, timestamp=TIME)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
        )
        running.send(request, 7, wire)
        assert (await produced(running, "t", 0)).error_code == 0
        assert (await produced(running, "t", 1)).error_code == 0
        disk.cold.set()
        response = await running.receive(request, ListOffsetsResponse, 7, wire)
        (answer,) = response.topics[0].partitions
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, 0, TIME)


# --- producers ----------------------------------------------------------------------------------


async def test_the_broker_forgets_producers_when_it_remembers_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "PRODUCERS_MAX", 8)
    monkeypatch.setattr(housekeeping, "CROWDED_EVERY_TICKS", 1)
    async with running_broker(tmp_path) as running:
        await running.create("t")
        await running.create("u")
        for producer in range(10):
            sent = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
            await running.produce("t", TIME, **sent)
            await running.produce("u", TIME, **sent)
        logs = running.broker.logs.logs.values()
        await eventually(lambda: sum(len(log.producers) for log in logs) <= 8)
        assert all(9 in log.producers.entries for log in logs)
