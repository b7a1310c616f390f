"""Share groups on a running broker: members get their partitions, offsets are changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from barnabas.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.broker.running import Running, running_broker

GROUP = "queue"
ROUNDS_MAX = 200


@asynccontextmanager
async def broker(path: Path, keeper: MemoryKeeper | None = None) -> AsyncIterator[Running]:
    async with running_broker(path, keeper=keeper or MemoryKeeper()) as running:
        found = await running.ask(
            FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse
        )
        assert not found.coordinators[0].error_code
        yield running


async def heartbeat(
    running: Running, member: str = "m", epoch: int = 0, topics: list[str] | None = None
) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
    )
    return await running.ask(request, ShareGroupHeartbeatResponse)


async def joined(running: Running, member: str = "m", topic: str = "t") -> tuple[int, list[int]]:
    """The epoch of a member and its partitions, once it has some."""
    answer = await heartbeat(running, member, 0, [topic])
    assert not answer.error_code, answer.error_message
    for _ in range(ROUNDS_MAX):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer.member_epoch, answer.assignment.topic_partitions[0].partitions
        assert answer.heartbeat_interval_ms < 5_000, "it must not wait for long"
        await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
        answer = await heartbeat(running, member, answer.member_epoch)
        assert not answer.error_code, answer.error_message
    raise AssertionError("it got no partitions")


async def alter(running: Running, starts: dict[int, int], topic: str = "t") -> Any:
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=n, start_offset=start)
        for n, start in starts.items()
    ]
    request = AlterShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)],
    )
    return await running.ask(request, AlterShareGroupOffsetsResponse)


async def offsets(running: Running) -> dict[int, tuple[int, int]]:
    """By partition: start offset and lag."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)]
    )
    answer = await running.ask(request, DescribeShareGroupOffsetsResponse)
    return {
        each.partition_index: (each.start_offset, each.lag)
        for topic in answer.groups[0].topics
        for each in topic.partitions
    }


async def delete_group(running: Running) -> Code:
    answer = await running.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse)
    return Code.of(answer.results[0].error_code)


async def test_a_member_gets_its_partitions_within_moments(tmp_path: Path) -> None:
    async with broker(tmp_path) as running:
        await running.create("t", partitions=2)
        epoch, partitions = await joined(running)
        assert partitions == [0, 1]
        listed = await running.ask(ListGroupsRequest(types_filter=["share"]), ListGroupsResponse)
        assert [(g.group_id, g.group_type, g.protocol_type) for g in listed.groups] == [
            (GROUP, "share", "share")
        ]
        described = await running.ask(
            ShareGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False),
            ShareGroupDescribeResponse,
        )
        (group,) = described.groups
        assert (group.group_state, group.group_epoch, group.assignor_name) == (
            "Stable", epoch, "simple",
        )  # fmt: skip
        assert group.members[0].assignment.topic_partitions[0].partitions == [0, 1]


async def test_the_group_survives_a_restart(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with broker(tmp_path, keeper) as running:
        await running.create("t", partitions=1)
        epoch, _ = await joined(running)
    async with broker(tmp_path, keeper) as running:
        answer = await heartbeat(running, epoch=epoch)
        assert (answer.error_code, answer.member_epoch) == (Code.NONE, epoch)


async def test_altered_offsets_are_described_and_deleted(tmp_path: Path) -> None:
    async with broker(tmp_path) as running:
        await running.create("t", partitions=2)
        await running.produce("t", 1, 2, 3, 4, 5)
        answer = await alter(running, {0: 2, 7: 1})
        codes = [each.error_code for each in answer.responses[0].partitions]
        assert (answer.error_code, codes) == (
            Code.NONE, [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION],
        )  # fmt: skip
        assert await offsets(running) == {0: (2, 3)}
        await alter(running, {0: 4})
        assert await offsets(running) == {0: (4, 1)}
        request = DeleteShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=[
                DeleteShareGroupOffsetsRequestTopic(topic_name="t"),
                DeleteShareGroupOffsetsRequestTopic(topic_name="missing"),
            ],
        )
        deleted = await running.ask(request, DeleteShareGroupOffsetsResponse)
        assert [topic.error_code for topic in deleted.responses] == [
            Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION,
        ]  # fmt: skip
        assert await offsets(running) == {}


async def test_a_group_with_members_keeps_its_offsets_and_itself(tmp_path: Path) -> None:
    async with broker(tmp_path) as running:
        await running.create("t", partitions=1)
        await joined(running)
        assert (await alter(running, {0: 0})).error_code == Code.NON_EMPTY_GROUP
        assert await delete_group(running) is Code.NON_EMPTY_GROUP
        assert (await heartbeat(running, epoch=-1)).error_code == Code.NONE
        assert await delete_group(running) is Code.NONE
        assert await delete_group(running) is Code.GROUP_ID_NOT_FOUND
        await joined(running)


async def test_a_topic_that_is_created_again_begins_at_its_start(tmp_path: Path) -> None:
    async with broker(tmp_path) as running:
        await running.create("t", partitions=1)
        await alter(running, {0: 0})
        await running.ask(
            DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000), DeleteTopicsResponse, 5
        )
        assert await offsets(running) == {}
        await running.create("t", partitions=1)
        assert (await joined(running))[1] == [0]


@pytest.mark.parametrize("group", ["", "other"])
async def test_groups_that_do_not_exist_are_refused(tmp_path: Path, group: str) -> None:
    async with broker(tmp_path) as running:
        request = DeleteShareGroupOffsetsRequest(group_id=group, topics=[])
        code = Code.GROUP_ID_NOT_FOUND if group else Code.INVALID_GROUP_ID
        answer = await running.ask(request, DeleteShareGroupOffsetsResponse)
        assert answer.error_code == code
