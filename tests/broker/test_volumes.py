"""Several log directories: where logs go, disks that fail, stall or lose power, and moves."""

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.model.ports import Buffer
from barnabas.system.disk import SystemDisk, SystemFile
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.broker.running import Running, Wire, running_broker
from tests.group_requests import commit_request
from tests.waiting import eventually

TIME = 1_700_000_000_000
NAMES = ("one", "two", "three")


class SickFile(SystemFile):
    __slots__ = ("disk",)
    disk: "SickDisk"

    def write(self, position: int, data: Buffer) -> None:
        self.disk.ail(self.path)
        super().write(position, data)

    def cached(self, position: int, length: int) -> bool:
        return self.disk.cold is None or self.disk.cold.is_set()

    def read(self, position: int, length: int) -> bytes:
        if length > 100_000 and self.disk.cold is not None:  # no look at a header: the records
            assert threading.current_thread() is not threading.main_thread() or self.cached(0, 1)
            assert self.disk.cold.wait(60)
        return super().read(position, length)

    def sync(self) -> None:
        self.disk.ail(self.path, sync=True)
        super().sync()


class SickDisk(SystemDisk):
    """A disk whose directories can be made to fail, or to wait with every sync."""

    def __init__(self) -> None:
        self.broken: dict[str, int] = {}  # directories, and with what they answer
        self.gates: dict[str, threading.Event] = {}  # directories whose syncs wait for it
        self.cold: threading.Event | None = None  # records are not in memory until it is set
        self.syncs = 0

    def ail(self, path: str, *, sync: bool = False) -> None:
        if sync:
            self.syncs += 1
            for directory, gate in tuple(self.gates.items()):
                if path.startswith(directory + "/"):
                    assert gate.wait(60)
        for directory, number in tuple(self.broken.items()):
            if path.startswith(directory + "/"):
                raise OSError(number, "sick", path)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        if create:
            self.ail(path)
        found = super().open(path, create=create)
        file = SickFile(path, found.fileno())
        found._fd = -1
        file.disk = self
        return file

    def list(self, path: str) -> list[str]:
        self.ail(path + "/")
        return super().list(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self.ail(path)
        super().replace_file(path, data)


@contextmanager
def stalled(disk: SickDisk, directory: Path) -> Iterator[None]:
    gate = disk.gates[str(directory)] = threading.Event()
    try:
        yield
    finally:
        gate.set()
        del disk.gates[str(directory)]


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in NAMES]


def log_dirs(directories: list[Path]) -> dict[str, str]:
    return {"log.dirs": ",".join(map(str, directories))}


def request_for(topic: str, partition: int, records: int = 1, base: int = 0) -> ProduceRequest:
    batch = encode_batch([Record(n, TIME, b"key", b"%d" % (base + n), ()) for n in range(records)])
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    return ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


async def produced(
    running: Running, topic: str, partition: int, wire: Wire | None = None
) -> PartitionProduceResponse:
    response = await running.ask(request_for(topic, partition), ProduceResponse, 12, wire)
    return response.responses[0].partition_responses[0]


async def described(running: Running) -> dict[str, DescribeLogDirsResult]:
    response = await running.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return {Path(result.log_dir).name: result for result in response.results}


async def values(running: Running, topic: str, partition: int = 0) -> list[bytes | None]:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 24)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 24,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    found: list[bytes | None] = []
    while True:
        response = await running.ask(request, FetchResponse, 12)
        (answer,) = response.responses[0].partitions
        assert not answer.error_code
        records = bytes(answer.records or b"")  # type: ignore[arg-type]
        before = len(found)
        for _, batch in iter_batches(records):
            found += [r.value for r in decode_batch(batch) if r.offset >= wanted.fetch_offset]
        if len(found) == before:
            return found
        wanted = FetchPartition(
            partition=partition, fetch_offset=len(found), partition_max_bytes=1 << 24
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 24,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )


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
    """Its partitions are not made anew elsewhere: they would seem to have lost their records."""
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
        assert running.broker.failure == "no log directory is left"
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


# --- moves --------------------------------------------------------------------------------------


async def moved(running: Running, topic: str, partition: int, to: Path) -> int:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=str(to), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
            )
        ]
    )
    response = await running.ask(request, AlterReplicaLogDirsResponse)
    return response.results[0].partitions[0].error_code


async def test_a_log_moves_to_another_directory_while_it_is_written_to(
    tmp_path: Path, directories: list[Path]
) -> None:
    keeper = MemoryKeeper()
    settings = {**log_dirs(directories), "log.segment.bytes": "1048576"}
    async with running_broker(tmp_path, settings, keeper) as running:
        await running.create("t")
        partition = running.broker.topics.existing("t").partition(0)
        source, sent = partition.log, 0
        while source.size < 5_000_000:
            await running.ask(request_for("t", 0, 1000, sent), ProduceResponse, 12)
            sent += 1000
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        await running.produce("t", TIME, **producer)
        assert await moved(running, "t", 0, directories[2]) == 0
        during = 0
        while running.broker.moves.of(partition.name) is not None:
            assert (await produced(running, "t", 0)).error_code == 0
            during += 1
        assert partition.log is not source
        assert not list(directories[0].glob("t-0"))
        assert list(directories[2].glob("t-0"))
        await running.produce("t", TIME, **producer)  # the same again: known from before the move
        total = sent + 1 + during
        assert partition.log.end_offset == total
        found = await values(running, "t")
        assert found[:sent] == [b"%d" % number for number in range(sent)]
        assert len(found) == total
        results = await described(running)
        assert [len(results[name].topics) for name in NAMES] == [0, 0, 1]
    async with running_broker(tmp_path, settings, keeper) as running:
        assert running.broker.topics.existing("t").partition(0).log.end_offset == total
        assert len(await values(running, "t")) == total


async def test_a_move_copies_no_faster_than_it_may_until_it_may(
    tmp_path: Path, directories: list[Path]
) -> None:
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    async with running_broker(tmp_path, {**log_dirs(directories), rate: "1"}) as running:
        await running.create("t")
        partition = running.broker.topics.existing("t").partition(0)
        source, sent = partition.log, 0
        while source.size < 3_000_000:
            await running.ask(request_for("t", 0, 1000, sent), ProduceResponse, 12)
            sent += 1000
        assert await moved(running, "t", 0, directories[2]) == 0
        move = running.broker.moves.of(partition.name)
        assert move is not None
        await eventually(lambda: move.copy is not None and move.copy.end_offset > 0)
        assert move.copy is not None
        assert move.copy.end_offset < source.end_offset
        await running.broker.catalog.configure_broker(None, lambda _: {rate: "1000000000"})
        await eventually(lambda: running.broker.moves.of(partition.name) is None)
        assert partition.log is not source
        assert partition.log.end_offset == sent


async def test_a_copy_that_a_crash_cut_off_is_removed_and_the_log_stays(
    tmp_path: Path, directories: list[Path]
) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, log_dirs(directories), keeper) as running:
        await running.create("t")
        await produced(running, "t", 0)
        id_ = running.broker.topics.existing("t").id
    half = directories[1] / f"t-0.{id_.hex}-future"
    half.mkdir()
    (half / "00000000000000000000.log").write_bytes(b"half")
    async with running_broker(tmp_path, log_dirs(directories), keeper) as running:
        assert await values(running, "t") == [b"0"]
        await eventually(lambda: not half.exists())


async def test_a_move_to_no_directory_of_ours_is_refused(
    tmp_path: Path, directories: list[Path]
) -> None:
    async with running_broker(tmp_path, log_dirs(directories)) as running:
        await running.create("t")
        assert await moved(running, "t", 0, tmp_path) == Code.LOG_DIR_NOT_FOUND
        assert await moved(running, "t", 9, directories[1]) == Code.UNKNOWN_TOPIC_OR_PARTITION


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
