"""Groups come back with the broker: in the background, in slices, and without being asked for."""

import asyncio
from pathlib import Path

from barnabas.broker.partition import ACKS_ALL
from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.coordinators.groups.records import (
    OffsetCommitValue,
    OffsetRecord,
    encode,
    partition_of,
)
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse
from barnabas.wire.records import BatchBuilder, Record, encode_batch
from tests.broker.running import Running, running_broker
from tests.group_requests import commit_request, committed_request
from tests.waiting import WAIT_S, eventually

COMMIT, FETCH = 9, 9  # versions
WALL_MS = 1_700_000_000_000
SETTINGS = {"offsets.topic.num.partitions": "3"}


async def commit(running: Running, group: str, partitions: int, offset: int) -> None:
    await running.ask(FindCoordinatorRequest(coordinator_keys=[group]), FindCoordinatorResponse)
    request = commit_request(group, dict.fromkeys(range(partitions), offset))
    answer = await running.ask(request, OffsetCommitResponse, COMMIT)
    assert {each.error_code for each in answer.topics[0].partitions} == {0}


async def fill(running: Running, commits: int) -> None:
    """Commits of a group "large", a hundred partitions each, straight into its log."""
    await commit(running, "large", 1, 0)
    partitions = running.broker.topics.existing(OFFSETS_TOPIC).partitions
    log = partitions[partition_of("large", len(partitions))]
    earlier, last = (_commits(offset) for offset in (0, commits - 1))
    for data in [earlier] * (commits - 1) + [last]:
        log.append(memoryview(bytearray(data)), ACKS_ALL, WALL_MS)


def _commits(offset: int) -> bytes:
    builder = BatchBuilder()
    for index in range(100):
        value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=WALL_MS)
        builder.append(*encode([OffsetRecord("large", "t", index, value)])[0], (), WALL_MS)
    return bytes(builder.build())


async def fetched(running: Running, group: str, partition: int = 0) -> tuple[int, int]:
    """The group's error, and the offset."""
    request = committed_request(group, [partition])
    (answer,) = (await running.ask(request, OffsetFetchResponse, FETCH)).groups
    if answer.error_code:
        return answer.error_code, -1
    return Code.NONE, answer.topics[0].partitions[0].committed_offset


def is_loaded(running: Running) -> bool:
    found = running.broker.coordination
    return found is not None and not found.runtime.is_loading()


async def test_groups_are_read_back_before_anyone_asks_for_one(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t", 3)
        for number in range(5):
            await commit(running, f"group-{number}", 3, 10 + number)
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await eventually(lambda: is_loaded(running))
        for number in range(5):
            assert await fetched(running, f"group-{number}", 2) == (Code.NONE, 10 + number)


async def test_a_broker_that_never_had_a_group_loads_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as running:
        await running.create("t")
        await running.produce("t", 1)
        assert running.broker.coordination is None


async def test_requests_while_a_shard_loads_must_be_sent_again(tmp_path: Path) -> None:
    """And the loop is free meanwhile: other requests are answered between the slices."""
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t")
        await fill(running, 600)
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        codes = []
        async with asyncio.timeout(WAIT_S):
            while True:
                code, offset = await fetched(running, "large", 99)
                codes.append(code)
                if not code:
                    break
        assert codes[0] == Code.COORDINATOR_LOAD_IN_PROGRESS
        assert len(codes) > 3
        assert offset == 599


async def test_a_member_is_taken_at_its_word_while_its_group_is_read_back(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t")
        await fill(running, 300)
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        beat = HeartbeatRequest(group_id="large", generation_id=1, member_id="m")
        assert (await running.ask(beat, HeartbeatResponse)).error_code == Code.NONE
        listed = await running.ask(ListGroupsRequest(), ListGroupsResponse)
        assert listed.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
        await eventually(lambda: is_loaded(running))
        assert (await running.ask(beat, HeartbeatResponse)).error_code == Code.UNKNOWN_MEMBER_ID


async def test_a_broker_that_stops_while_groups_load_stops_cleanly(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t")
        await fill(running, 200)
    for turns in (0, 1, 5):
        async with running_broker(tmp_path, SETTINGS, keeper) as running:
            for _ in range(turns):
                await asyncio.sleep(0)
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await eventually(lambda: is_loaded(running))
        assert await fetched(running, "large") == (Code.NONE, 199)


async def test_a_shard_that_cannot_be_read_refuses_and_the_others_answer(tmp_path: Path) -> None:
    """A coordinator that has lost a commit must not answer as if there had been none."""
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await running.create("t")
        for number in range(20):
            await commit(running, f"group-{number}", 1, number)
        topic = running.broker.topics.existing(OFFSETS_TOPIC)
        torn = encode_batch([Record(0, 0, b"\0\x01\0", b"a key that ends too soon")])
        topic.partitions[1].append(memoryview(torn), ACKS_ALL, 0)
        assert (await fetched(running, "group-0"))[0] == Code.NONE
    async with running_broker(tmp_path, SETTINGS, keeper) as running:
        await eventually(lambda: is_loaded(running))
        codes = {(await fetched(running, f"group-{number}"))[0] for number in range(20)}
        assert codes == {Code.NONE, Code.NOT_COORDINATOR}
        assert "groups not loaded" in running.log.getvalue()
