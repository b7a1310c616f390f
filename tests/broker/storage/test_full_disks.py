"""A disk that is full: every write and sync has one rule, and the broker lives."""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.keeper.sqlite import SqliteKeeper
from barnabas.log.log import Log
from barnabas.model.errors import Code
from tests.broker.running import running_broker
from tests.broker.sick_disks import SickDisk, log_dirs, produced, values
from tests.waiting import eventually

pytestmark = pytest.mark.slow


class FullDisk(SickDisk):
    """No room in calls of one kind, for files whose names end with `suffix`."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = self.suffix = ""
        self.error = errno.ENOSPC
        self.met = 0

    def _check(self, kind: str, path: str) -> None:
        if kind == self.kind and path.endswith(self.suffix):
            self.met += 1
            raise OSError(self.error, os.strerror(self.error), path)

    def ail(self, path: str, *, sync: bool = False) -> None:
        super().ail(path, sync=sync)
        self._check("sync" if sync else "write", path)

    def sync_directory(self, path: str) -> None:
        self._check("sync directory", path)
        super().sync_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._check("rename", new)
        super().rename(old, new)

    @contextmanager
    def full(self, kind: str, suffix: str) -> Iterator[None]:
        self.kind, self.suffix = kind, suffix
        try:
            yield
        finally:
            self.kind = ""


CASES = [
    ("sync", ".log"),
    ("sync", ".index"),
    ("sync", ".snapshot"),
    ("sync", "partition.metadata"),
    ("sync directory", "t-0"),
    ("write", ".log"),
    ("write", ".index"),
    ("write", ".timeindex"),
    ("write", ".snapshot.tmp"),
    ("rename", ".snapshot"),
    ("write", "recovery-point-offset-checkpoint"),
    ("write", "leader-epoch-checkpoint"),
]


@pytest.mark.parametrize(("kind", "suffix"), CASES)
async def test_appends_work_again_once_there_is_room(
    tmp_path: Path, directories: list[Path], kind: str, suffix: str
) -> None:
    disk = FullDisk()
    settings = {"log.dirs": str(directories[0]), "log.segment.bytes": "500"}
    async with running_broker(tmp_path, settings, disk=disk) as running:
        with disk.full(kind, suffix):
            try:
                await running.create("t", configs={"flush.messages": "1", "segment.bytes": "500"})
            except AssertionError:  # refused, which is fine
                disk.kind = ""
                await running.create("t", configs={"flush.messages": "1", "segment.bytes": "500"})
                disk.kind = kind
            answers = [(await produced(running, "t", 0)).error_code for _ in range(15)]
            assert set(answers) <= {0, Code.KAFKA_STORAGE_ERROR}
            await eventually(lambda: disk.met > 0)
            before = await values(running, "t")
            assert len(before) >= answers.count(0)
        assert running.broker.logs.log_directories[0].online
        assert not running.broker.failure

        async def appended() -> bool:
            return (await produced(running, "t", 0)).error_code == 0

        for _ in range(100):
            if await appended():
                break
            await eventually(lambda: not running.broker.logs.log_directories[0].cannot_sync)
        else:
            raise AssertionError("appends are refused though there is room")
        log = running.broker.topics.existing("t").partition(0).log
        await eventually(lambda: log.durable_offset == log.end_offset)
        assert (await values(running, "t"))[: len(before)] == before


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
async def test_each_time_that_checkpoints_cannot_be_written_the_log_says_why_once(
    tmp_path: Path, error: int
) -> None:
    disk = FullDisk()
    disk.error = error
    async with running_broker(tmp_path, disk=disk) as running:
        directory = running.broker.logs.log_directories[0]
        for times in (1, 2):
            await running.create(f"t{times}")
            await produced(running, f"t{times}", 0)
            with disk.full("write", "-checkpoint"):
                assert not await directory.checkpoint()
                assert not await directory.checkpoint()
            said = running.log.getvalue()
            assert said.count("checkpoint not written") == times
            assert os.strerror(error) in said
            assert await directory.checkpoint()
        assert directory.online


async def test_a_sync_without_room_and_then_an_error_still_takes_the_directory_offline(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = FullDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t", configs={"flush.messages": "1"})
        with disk.full("sync", ".log"):
            assert (await produced(running, "t", 0)).error_code == Code.KAFKA_STORAGE_ERROR
        log_directory = running.broker.topics.existing("t").partition(0).log_directory
        assert log_directory is not None
        assert log_directory.online
        disk.broken[log_directory.path] = errno.EIO
        await eventually(lambda: not log_directory.online)


async def test_every_waiter_of_a_sync_gets_its_result_after_any_error(
    tmp_path: Path, directories: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, log_dirs(directories)) as running:
        await running.create("t", partitions=3)
        for partition in range(3):
            await produced(running, "t", partition)
        log_directory = running.broker.logs.log_directories[0]
        log = next(iter(log_directory.logs.logs.values()))
        told: list[str] = []

        def flushed(self: Log, work: object) -> int:
            raise ValueError("a fault of the program")

        def bad_waiter(reason: str) -> None:
            raise ValueError("a fault of who waits")

        with monkeypatch.context() as patched:
            patched.setattr(Log, "flushed", flushed)
            flushes: list[DeferredReply[str]] = [log_directory.flush(log) for _ in range(3)]
            flushes[0].then(bad_waiter)
            for deferred in flushes[1:]:
                deferred.then(told.append)
            await eventually(lambda: len(told) == 2)
        assert all("a fault of the program" in reason for reason in told)


async def test_a_topic_is_refused_while_the_keeper_file_has_no_room_and_made_once_it_has(
    tmp_path: Path,
) -> None:
    keeper = SqliteKeeper(str(tmp_path / "keeper.db"))
    async with running_broker(tmp_path, keeper=keeper) as running:
        database = keeper._file._database
        database.execute("PRAGMA max_page_count=1")  # SQLite takes what is there already
        refused = 0
        for number in range(60):
            try:
                await running.create(f"t{number}", partitions=20)
            except AssertionError:
                refused += 1
        assert refused
        assert not running.broker.failure
        database.execute("PRAGMA max_page_count=100000")
        await running.create("deferred")
        assert (await produced(running, "deferred", 0)).error_code == 0


async def test_the_log_says_why_a_topic_was_not_created(
    tmp_path: Path, directories: list[Path]
) -> None:
    """The client gets an error, but the operator of the disk reads the log."""
    disk = FullDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        with disk.full("write", "partition.metadata"), pytest.raises(AssertionError):
            await running.create("t")
        assert disk.met
        assert "topic not created" in running.log.getvalue()
        assert "No space left on device" in running.log.getvalue()
        await running.create("t")


async def test_the_log_says_that_a_compaction_waits_for_room(
    tmp_path: Path, directories: list[Path]
) -> None:
    disk = FullDisk()
    async with running_broker(tmp_path, log_dirs(directories), disk=disk) as running:
        await running.create("t")
        cleaner, log_directory = running.broker.cleaner, running.broker.logs.log_directories[0]
        with disk.full("sync directory", log_directory.path):
            waiting = asyncio.create_task(
                cleaner._sync_directory(log_directory, log_directory.path)
            )
            await eventually(lambda: "compaction waits: the disk is full" in running.log.getvalue())
            assert "No space left on device" in running.log.getvalue()
        await waiting
        assert running.log.getvalue().count("compaction waits: the disk is full") == 1
