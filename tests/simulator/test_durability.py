"""Each line of docs/DURABILITY.md, on a broker whose disk forgets what was not synced."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from barnabas.keeper.memory import MemoryKeeper
from barnabas.keeper.paths import config_data, topic_config
from barnabas.model.errors import Code
from barnabas.wire.messages.produce import ProduceResponse
from tests.broker.running import Running, running_broker
from tests.broker.sick_disks import produced, request_for, values
from tests.share import IN_FULL
from tests.simulator.disk import SimulatedDisk
from tests.waiting import eventually

DATA = Path("/data")
SEEDS = range(10 if IN_FULL else 2)
RECORDS = 30


@asynccontextmanager
async def broker(disk: SimulatedDisk, keeper: MemoryKeeper) -> AsyncIterator[Running]:
    async with running_broker(DATA, keeper=keeper, disk=disk) as running:
        yield running


async def acknowledged(running: Running, topic: str, records: int = RECORDS) -> None:
    for _ in range(records):
        assert (await produced(running, topic, 0)).error_code == 0


async def survivors(disk: SimulatedDisk, keeper: MemoryKeeper, topic: str = "t") -> int:
    async with broker(disk, keeper) as running:
        return len(await values(running, topic))


def power_lost(seed: int) -> Callable[[SimulatedDisk], SimulatedDisk]:
    return lambda disk: disk.kill().crash(Random(seed))


async def left(
    configs: dict[str, str],
    then: Callable[[SimulatedDisk], SimulatedDisk],
    wait: Callable[[Running], object] | None = None,
) -> int:
    """How many records are left of those acknowledged, when the broker ends like that."""
    disk, keeper = SimulatedDisk(), MemoryKeeper()
    async with broker(disk, keeper) as running:
        await running.create("t", configs=configs)
        await acknowledged(running, "t")
        if wait is not None:
            await eventually(lambda: wait(running))
        after = then(disk)
    return await survivors(after, keeper)


@pytest.mark.parametrize("configs", [{}, {"flush.messages": "1"}, {"flush.messages": "7"}])
async def test_what_was_acknowledged_survives_the_end_of_the_process(
    configs: dict[str, str],
) -> None:
    assert await left(configs, SimulatedDisk.kill) == RECORDS


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_synced_record_survives_a_loss_of_power(seed: int) -> None:
    assert await left({"flush.messages": "1"}, power_lost(seed)) == RECORDS


@pytest.mark.parametrize("seed", SEEDS)
async def test_with_a_flush_every_seven_records_at_most_six_are_lost(seed: int) -> None:
    assert await left({"flush.messages": "7"}, power_lost(seed)) >= RECORDS - 6


@pytest.mark.parametrize("seed", SEEDS[: 1 + len(SEEDS) // 6])
async def test_with_a_flush_by_time_all_survive_once_it_has_passed(seed: int) -> None:
    def synced(running: Running) -> bool:
        return running.broker.topics.existing("t").partition(0).log.durable_offset == RECORDS

    assert await left({"flush.ms": "1"}, power_lost(seed), synced) == RECORDS


@pytest.mark.parametrize("seed", SEEDS)
async def test_without_a_flush_a_loss_of_power_leaves_whole_records_in_order(seed: int) -> None:
    disk, keeper = SimulatedDisk(), MemoryKeeper()
    async with broker(disk, keeper) as running:
        await running.create("t")
        await acknowledged(running, "t")
        after = disk.kill().crash(Random(seed))
    async with broker(after, keeper) as running:
        log = running.broker.topics.existing("t").partition(0).log
        assert len(await values(running, "t")) == log.end_offset <= RECORDS
        assert (await produced(running, "t", 0)).base_offset == log.end_offset - 1


@pytest.mark.parametrize("seed", SEEDS[:5])
async def test_what_a_killed_process_left_unsynced_is_shown_once_it_is_synced(seed: int) -> None:
    disk, keeper = SimulatedDisk(), MemoryKeeper()
    async with broker(disk, keeper) as running:
        await running.create("t")
        await acknowledged(running, "t")  # synced by nobody
        killed = disk.kill()
    keeper.create(topic_config("t"), config_data({"flush.messages": "1"}))
    async with broker(killed, keeper) as running:
        assert len(await values(running, "t")) == RECORDS
        after = killed.kill().crash(Random(seed))
    assert await survivors(after, keeper) == RECORDS


@pytest.mark.parametrize("seed", SEEDS[:10])
async def test_the_first_record_after_a_clean_stop_without_any_survives_too(seed: int) -> None:
    disk, keeper = SimulatedDisk(), MemoryKeeper()
    async with broker(disk, keeper) as running:
        await running.create("t", configs={"flush.messages": "1"})
    async with broker(disk, keeper) as running:
        await acknowledged(running, "t", 1)
        after = disk.kill().crash(Random(seed))
    assert await survivors(after, keeper) == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_a_clean_stop_a_loss_of_power_takes_nothing(seed: int) -> None:
    disk, keeper = SimulatedDisk(), MemoryKeeper()
    async with broker(disk, keeper) as running:
        await running.create("t")
        await acknowledged(running, "t")
    assert await survivors(disk.crash(Random(seed)), keeper) == RECORDS


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_synced_record_survives_a_loss_of_power_after_its_log_has_moved(seed: int) -> None:
    disk, keeper = SimulatedDisk(), MemoryKeeper()
    settings = {"log.dirs": "/data/one,/data/two"}
    async with running_broker(DATA, settings, keeper, disk) as running:
        await running.create("t", configs={"flush.messages": "1"})
        await acknowledged(running, "t")
        partition = running.broker.topics.existing("t").partition(0)
        before = partition.log
        (other,) = [
            each
            for each in running.broker.logs.log_directories
            if each is not partition.log_directory
        ]
        before.delete_before(3)
        running.broker.moves.begin(partition, other)
        await eventually(lambda: running.broker.moves.of(partition.name) is None)
        assert partition.log is not before
        after = disk.kill().crash(Random(seed))
    async with running_broker(DATA, settings, keeper, after) as running:
        log = running.broker.topics.existing("t").partition(0).log
        assert (log.start_offset, log.end_offset) == (3, RECORDS)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_sync_without_room_refuses_and_what_is_synced_later_survives(seed: int) -> None:
    """The kernel may have dropped what it found no room for: a second sync alone saves nothing."""
    disk, keeper = SimulatedDisk(), MemoryKeeper()
    async with broker(disk, keeper) as running:
        await running.create("t", configs={"flush.messages": "1"})
        await acknowledged(running, "t", 5)
        disk.full = True
        many = await running.ask(request_for("t", 0, 500), ProduceResponse, 12)
        answer = many.responses[0].partition_responses[0]
        assert answer.error_code == Code.KAFKA_STORAGE_ERROR
        assert (await produced(running, "t", 0)).error_code == Code.KAFKA_STORAGE_ERROR
        assert len(await values(running, "t")) == 5
        disk.full = False
        log = running.broker.topics.existing("t").partition(0).log
        await eventually(lambda: log.durable_offset == log.end_offset)
        await acknowledged(running, "t", 5)
        assert running.broker.logs.log_directories[0].online
        after = disk.kill().crash(Random(seed))
    assert await survivors(after, keeper) == log.end_offset >= 510
