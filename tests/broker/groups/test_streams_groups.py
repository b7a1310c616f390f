"""Streams groups on a running broker: internal topics are created, tasks assigned and described."""

import asyncio
from pathlib import Path

from barnabas.model.errors import Code
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from barnabas.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from tests.broker.running import Running, running_broker
from tests.coordinators.groups.streams.streams_world import subtopology, topology
from tests.waiting import eventually

APPLICATION = "app"
COUNT = topology(
    subtopology("0", ["t"], sinks=("app-r-repartition",)),
    subtopology("1", [], repartitions={"app-r-repartition": 0}, changelogs=("app-s-changelog",)),
)
MISSING_INTERNAL_TOPICS = 3
ROUNDS_MAX = 200


async def heartbeat(
    running: Running, epoch: int = 0, of: Topology | None = None, member: str = "m"
) -> StreamsGroupHeartbeatResponse:
    request = StreamsGroupHeartbeatRequest(
        group_id=APPLICATION,
        member_id=member,
        member_epoch=epoch,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000 if of else -1,
        process_id="p" if of else None,
        topology=of,
        active_tasks=[] if of else None,
        standby_tasks=[] if of else None,
        warmup_tasks=[] if of else None,
    )
    return await running.ask(request, StreamsGroupHeartbeatResponse)


async def found_coordinator(running: Running) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=[APPLICATION])
    await running.ask(asked, FindCoordinatorResponse)


async def joined(running: Running, of: Topology = COUNT) -> StreamsGroupHeartbeatResponse:
    """The first response with tasks."""
    await found_coordinator(running)
    answer = await heartbeat(running, 0, of)
    for _ in range(ROUNDS_MAX):
        assert not answer.error_code, answer.error_message
        if answer.active_tasks:
            return answer
        assert answer.heartbeat_interval_ms < 5_000, "it must not wait for long"
        await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
        answer = await heartbeat(running, answer.member_epoch)
    raise AssertionError("it got no tasks")


async def test_internal_topics_are_created_and_tasks_assigned(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", 3)
        answer = await joined(running)
        tasks = {each.subtopology_id: each.partitions for each in answer.active_tasks or ()}
        assert tasks == {"0": [0, 1, 2], "1": [0, 1, 2]}
        for name in ("app-r-repartition", "app-s-changelog"):
            topic = running.broker.topics.existing(name)
            assert len(topic.partitions) == 3
            assert topic.overrides == {"cleanup.policy": "compact"}


async def test_a_group_is_listed_described_and_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", 3)
        answer = await joined(running)
        listed = await running.ask(ListGroupsRequest(), ListGroupsResponse)
        assert [
            (g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed.groups
        ] == [(APPLICATION, "streams", "Stable", "streams")]
        asked = StreamsGroupDescribeRequest(
            group_ids=[APPLICATION, "other", ""], include_authorized_operations=False
        )
        described = await running.ask(asked, StreamsGroupDescribeResponse)
        found, other, empty = described.groups
        assert (other.error_code, empty.error_code) == (
            Code.GROUP_ID_NOT_FOUND,
            Code.INVALID_GROUP_ID,
        )
        assert found.group_epoch == found.assignment_epoch == answer.member_epoch
        assert found.topology is not None
        assert found.topology.subtopologies is not None
        changelog = found.topology.subtopologies[1].state_changelog_topics[0]
        assert (changelog.name, changelog.partitions) == ("app-s-changelog", 3)
        (member,) = found.members
        assert (member.member_id, member.process_id) == ("m", "p")
        assert member.assignment == member.target_assignment
        assert [each.subtopology_id for each in member.assignment.active_tasks] == ["0", "1"]
        await heartbeat(running, -1)
        gone = await running.ask(
            DeleteGroupsRequest(groups_names=[APPLICATION]), DeleteGroupsResponse
        )
        assert gone.results[0].error_code == Code.NONE


async def test_a_topic_that_cannot_be_created_is_explained(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", 1)
        await found_coordinator(running)
        part = subtopology("0", ["t"], changelogs=("app-s-changelog",))
        wrong = part.state_changelog_topics[0].topic_configs
        wrong[0] = type(wrong[0])(key="cleanup.policy", value="wash")
        answer = await heartbeat(running, 0, topology(part))

        await eventually(lambda: "internal topic not created" in running.log.getvalue())
        again = await heartbeat(running, answer.member_epoch)
        details = {each.status_code: each.status_detail for each in again.status or ()}
        assert "not created: app-s-changelog" in details[MISSING_INTERNAL_TOPICS]
        assert "wash" in details[MISSING_INTERNAL_TOPICS]
