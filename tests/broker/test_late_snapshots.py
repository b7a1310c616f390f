"""Producer snapshots are written in the thread of the log directory, whatever happens meanwhile."""

import asyncio
import threading
from pathlib import Path

from barnabas.keeper.memory import MemoryKeeper
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.broker.running import Running, running_broker
from tests.broker.sick_disks import TIME, SickDisk
from tests.waiting import WAIT_S, eventually

SUFFIX = ".snapshot.tmp"


class SlowSnapshots(SickDisk):
    """A write of a snapshot waits until `gate` is set; `writers` has the threads that wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.writers: set[threading.Thread] = set()

    def ail(self, path: str, *, sync: bool = False) -> None:
        super().ail(path, sync=sync)
        if path.endswith(SUFFIX):
            self.writers.add(threading.current_thread())
            self.begun.set()
            assert self.gate.wait(WAIT_S)


async def rolled(running: Running, disk: SlowSnapshots) -> None:
    """A topic `t` with a producer, a roll, and the write of its snapshot begun."""
    await running.create("t")
    producer = {"producer_id": 7, "producer_epoch": 0}
    await running.produce("t", TIME, base_sequence=0, **producer)
    running.broker.topics.existing("t").partition(0).log.roll(TIME)
    await running.produce("t", TIME, base_sequence=1, **producer)
    await eventually(disk.begun.is_set)


async def test_the_event_loop_goes_on_while_a_snapshot_is_written(tmp_path: Path) -> None:
    disk = SlowSnapshots()
    async with running_broker(tmp_path, disk=disk) as running:
        await rolled(running, disk)
        log = running.broker.topics.existing("t").partition(0).log
        await running.produce("t", TIME)
        assert log.recovery_point < 1
        assert not (tmp_path / "t-0" / f"{1:020d}.snapshot").exists()
        disk.gate.set()
        await eventually((tmp_path / "t-0" / f"{1:020d}.snapshot").exists)
        await eventually(lambda: log.recovery_point >= 1)
        assert threading.main_thread() not in disk.writers


async def test_a_topic_deleted_and_made_again_gets_no_snapshot_of_the_old_one(
    tmp_path: Path,
) -> None:
    disk = SlowSnapshots()
    async with running_broker(tmp_path, disk=disk) as running:
        await rolled(running, disk)
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000)
        deleting = asyncio.create_task(running.ask(request, DeleteTopicsResponse, 3))
        disk.gate.set()
        assert not (await deleting).responses[0].error_code
        await running.create("t")
        await running.produce("t", TIME)
        log_directory = running.broker.logs.log_directories[0]
        log = running.broker.topics.existing("t").partition(0).log
        assert not await log_directory.synced(log)
        assert not list((tmp_path / "t-0").glob("*.snapshot*"))


async def test_a_stop_while_a_snapshot_is_written_is_clean(tmp_path: Path) -> None:
    disk, keeper = SlowSnapshots(), MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper, disk=disk) as running:
        await rolled(running, disk)
        asyncio.get_running_loop().call_soon(disk.gate.set)
    assert {path.name for path in (tmp_path / "t-0").glob("*.snapshot*")} == {
        f"{1:020d}.snapshot",
        f"{2:020d}.snapshot",
    }
    async with running_broker(tmp_path, keeper=keeper) as running:
        log = running.broker.topics.existing("t").partition(0).log
        assert log.producers.entries[7].last_sequence == 1
        assert "recovery" not in running.log.getvalue()
