"""Logs that move from one directory to another."""

import errno
from pathlib import Path

import pytest

from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.storage.moves import Moves
from barnabas.keeper.memory import MemoryKeeper
from barnabas.log.log import Log
from barnabas.log.names import MOVED_AWAY
from barnabas.model.errors import Code
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.produce import ProduceResponse
from tests.broker.running import Running, running_broker
from tests.broker.sick_disks import (
    NAMES,
    TIME,
    SickDisk,
    described,
    log_dirs,
    produced,
    request_for,
    values,
)
from tests.waiting import eventually


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
        while source.size < 2_000_000:
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
    mark = directories[0] / "t-0" / MOVED_AWAY
    mark.touch()
    async with running_broker(tmp_path, log_dirs(directories), keeper) as running:
        assert await values(running, "t") == [b"0"]
        await eventually(lambda: not half.exists())
        assert not mark.exists()


async def test_a_move_to_no_directory_of_ours_is_refused(
    tmp_path: Path, directories: list[Path]
) -> None:
    async with running_broker(tmp_path, log_dirs(directories)) as running:
        await running.create("t")
        assert await moved(running, "t", 0, tmp_path) == Code.LOG_DIR_NOT_FOUND
        assert await moved(running, "t", 9, directories[1]) == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_source_of_a_log_does_not_replace_it_while_its_new_directory_is_offline(
    tmp_path: Path, directories: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new directory fails before the source is deleted: it has a record that the source does
    not have."""
    keeper, disk, settings = MemoryKeeper(), SickDisk(), log_dirs(directories)
    make_durable = Moves._made_durable
    async with running_broker(tmp_path, settings, keeper, disk=disk) as running:
        await running.create("t")
        assert (await produced(running, "t", 0)).error_code == 0
        partition = running.broker.topics.existing("t").partition(0)

        async def break_first(self: Moves, log: Log, to: OpenLogDirectory) -> bool:
            assert (await produced(running, "t", 0)).error_code == 0
            disk.broken[to.path] = errno.EIO
            return await make_durable(self, log, to)

        monkeypatch.setattr(Moves, "_made_durable", break_first)
        assert await moved(running, "t", 0, directories[2]) == 0
        await eventually(lambda: running.broker.moves.of(partition.name) is None)
        assert (await produced(running, "t", 0)).error_code == Code.KAFKA_STORAGE_ERROR
    async with running_broker(tmp_path, settings, keeper, disk=disk) as running:
        assert (await produced(running, "t", 0)).error_code == Code.KAFKA_STORAGE_ERROR
    disk.broken.clear()
    for _ in range(2):
        async with running_broker(tmp_path, settings, keeper, disk=disk) as running:
            assert await values(running, "t") == [b"0", b"0"]
