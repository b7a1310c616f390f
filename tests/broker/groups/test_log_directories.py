"""Groups on a disk that is slow to sync, or does not sync at all."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.broker.partition import Partition
from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.broker.groups.test_loading import COMMIT, FETCH, fetched
from tests.broker.running import Running, running_broker
from tests.broker.sick_disks import SickDisk, stalled
from tests.group_requests import commit_request, join_request
from tests.waiting import eventually

SETTINGS = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}


@pytest.fixture
def disk() -> SickDisk:
    return SickDisk()


@pytest.fixture
async def running(tmp_path: Path, disk: SickDisk) -> AsyncIterator[Running]:
    directories = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    async with running_broker(tmp_path, SETTINGS | {"log.dirs": directories}, disk=disk) as broker:
        await broker.create("t")
        await broker.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
        yield broker


def offsets(running: Running) -> Partition:
    (partition,) = running.broker.topics.existing(OFFSETS_TOPIC).partitions
    return partition


def home(running: Running) -> Path:
    log_directory = offsets(running).log_directory
    assert log_directory is not None
    return Path(log_directory.path)


async def test_waiting_group_requests_get_an_error_when_the_disk_is_lost(
    running: Running, disk: SickDisk
) -> None:
    joining, committing = running.connect(), running.connect()
    join = join_request("other")
    with stalled(disk, home(running)):
        running.send(join, 3, joining)
        running.send(commit_request("g", {0: 7}), COMMIT, committing)
        await eventually(lambda: offsets(running).log.end_offset == 1)
        disk.broken[str(home(running))] = errno.EIO
    committed = await running.receive(
        commit_request("g", {0: 7}), OffsetCommitResponse, COMMIT, committing
    )
    assert committed.topics[0].partitions[0].error_code == Code.NOT_COORDINATOR
    joined = await running.receive(join, JoinGroupResponse, 3, joining)
    assert joined.error_code == Code.NOT_COORDINATOR
    assert (await fetched(running, "g"))[0] == Code.NOT_COORDINATOR


async def test_a_commit_that_may_still_be_lost_is_not_visible(
    running: Running, disk: SickDisk
) -> None:
    committing, other = running.connect(), running.connect()
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    describe = DescribeGroupsRequest(groups=["g"])
    with stalled(disk, home(running)):
        running.send(commit_request("g", {0: 7}), COMMIT, committing)
        await eventually(lambda: offsets(running).log.end_offset == 1)
        running.send(fetch, FETCH)
        running.send(describe, wire=other)
        running.send(ListGroupsRequest(), wire=other)
        await eventually(lambda: running.broker.dispatcher.requests[ListGroupsRequest.api_key][0])
        assert not running.wire._to_client
        assert not other._to_client
    found = await running.receive(fetch, OffsetFetchResponse, FETCH)
    assert found.groups[0].topics[0].partitions[0].committed_offset == 7
    described = await running.receive(describe, DescribeGroupsResponse, wire=other)
    assert described.groups[0].group_state == "Empty"
    listed = await running.receive(ListGroupsRequest(), ListGroupsResponse, wire=other)
    assert [group.group_id for group in listed.groups] == ["g"]


async def test_a_look_at_a_commit_that_is_lost_ends_with_a_refusal(
    running: Running, disk: SickDisk
) -> None:
    committing = running.connect()
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    with stalled(disk, home(running)):
        running.send(commit_request("g", {0: 7}), COMMIT, committing)
        await eventually(lambda: offsets(running).log.end_offset == 1)
        running.send(fetch, FETCH)
        await eventually(lambda: running.broker.dispatcher.requests[OffsetFetchRequest.api_key][0])
        disk.broken[str(home(running))] = errno.EIO
    found = await running.receive(fetch, OffsetFetchResponse, FETCH)
    assert found.groups[0].error_code == Code.NOT_COORDINATOR
