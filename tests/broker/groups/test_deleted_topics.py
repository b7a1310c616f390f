"""Offsets of a deleted topic go with it, and those of the next one of its name stay."""

import asyncio
import threading
from pathlib import Path

import pytest

from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.coordinators.groups.records import partition_of
from barnabas.keeper import paths
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.broker.groups.test_loading import SETTINGS, commit, fetched, fill, is_loaded
from tests.broker.running import Running, running_broker
from tests.broker.sick_disks import SickDisk
from tests.waiting import eventually

NOTHING = (Code.NONE, -1)


async def delete(running: Running, name: str = "t") -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=NO_TOPIC_ID)], topic_names=[], timeout_ms=1_000
    )
    (answer,) = (await running.ask(request, DeleteTopicsResponse)).responses
    assert not answer.error_code


def elsewhere(other: str) -> str:
    """A group of another shard."""
    shard = partition_of(other, 3)
    return next(name for name in map(str, range(100)) if partition_of(name, 3) != shard)


def loaded(running: Running, group: str) -> bool:
    found = running.broker.coordination
    return found is not None and found.runtime.is_active(partition_of(group, 3))


def marks(keeper: MemoryKeeper) -> list[str]:
    return list(keeper.children(paths.DELETED_TOPICS))


async def test_a_commit_to_the_next_topic_of_the_name_outlives_the_loading_of_other_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.broker.shards.loading.SLICE_S", 0.0)  # a batch per turn
    keeper, disk = MemoryKeeper(), SickDisk()
    small = elsewhere("large")
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t", 100)
        await fill(running, 50)
    disk.cold = threading.Event()  # the large shard loads until it is set
    async with running_broker(tmp_path, SETTINGS, keeper, disk) as running:
        await eventually(lambda: loaded(running, small))
        await delete(running)
        await running.create("t", 100)
        await commit(running, small, 1, 3)
        assert await fetched(running, small) == (Code.NONE, 3)
        assert not loaded(running, "large")
        disk.cold.set()
        await eventually(lambda: is_loaded(running) and not marks(keeper))
        assert await fetched(running, small) == (Code.NONE, 3)
        assert await fetched(running, "large") == NOTHING
        await commit(running, "large", 1, 4)
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await eventually(lambda: is_loaded(running))
        assert await fetched(running, small) == (Code.NONE, 3)
        assert await fetched(running, "large") == (Code.NONE, 4)
        assert await fetched(running, "large", 99) == NOTHING


async def test_a_broker_that_dies_while_a_topic_is_deleted_forgets_its_offsets_later(
    tmp_path: Path,
) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t")
        await commit(running, "one", 1, 5)
        id_ = running.broker.topics.existing("t").id
    keeper.delete(paths.topic("t"))
    keeper.create(paths.deleted_topic("t"), paths.deleted_topic_data(id_))
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t")
        await eventually(lambda: is_loaded(running))
        assert await fetched(running, "one") == NOTHING
        await eventually(lambda: not marks(keeper))
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await eventually(lambda: is_loaded(running))
        assert await fetched(running, "one") == NOTHING


async def test_what_was_committed_after_the_deletion_stays_though_the_mark_does_too(
    tmp_path: Path,
) -> None:
    """As when the broker dies after a shard has served the next topic of the name."""
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t", 2)
        await commit(running, "one", 2, 5)
        id_ = running.broker.topics.existing("t").id
        shard = partition_of("one", 3)
        log = running.broker.topics.existing(OFFSETS_TOPIC).partitions[shard].log
        end = log.end_offset
        await commit(running, "one", 1, 7)
    keeper.create(paths.deleted_topic("t"), paths.deleted_topic_data(id_, {shard: end}))
    for _ in range(2):
        async with running_broker(tmp_path, SETTINGS, keeper) as running:
            await eventually(lambda: is_loaded(running) and not marks(keeper))
            assert await fetched(running, "one", 0) == (Code.NONE, 7)
            assert await fetched(running, "one", 1) == NOTHING


async def test_others_are_answered_while_many_offsets_are_forgotten(tmp_path: Path) -> None:
    groups = [group for group in map(str, range(40)) if partition_of(group, 3) == 0][:8]
    async with running_broker(tmp_path, SETTINGS) as running:
        await running.create("t", 500)
        for group in groups:
            await commit(running, group, 500, 1)
        coordination = running.broker.coordination
        assert coordination is not None
        offsets = coordination.runtime.shard(0).offsets
        wire = running.connect()
        beat = HeartbeatRequest(group_id=groups[0], generation_id=1, member_id="m")
        counts = set()
        deletion = asyncio.create_task(delete(running))
        while not deletion.done():
            await running.ask(beat, HeartbeatResponse, wire=wire)
            counts.add(sum(map(offsets.count, groups)))
        await deletion
        assert counts - {0, 4_000}
