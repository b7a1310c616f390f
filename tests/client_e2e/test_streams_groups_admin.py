"""What an administrator sees of a streams group, and does with it."""

import asyncio
from pathlib import Path

import barnabas
from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.text import document
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from tests.coordinators.groups.streams.streams_world import subtopology, topology
from tests.process import running_broker
from tests.waiting import WAIT_S

GROUP, TOPIC = "app", "orders"
COUNT = topology(subtopology("0", [TOPIC], changelogs=("app-s-changelog",)))
ROUNDS_MAX = 200
ANSWER_MS = int(WAIT_S * 1000)


async def heartbeat(
    admin: barnabas.Admin, epoch: int, of: Topology | None = None
) -> StreamsGroupHeartbeatResponse:
    connection = await admin._cluster.coordinator(GROUP)
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m1",
        member_epoch=epoch,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=-1 if of is None else 60_000,
        process_id=None if of is None else "p",
        topology=of,
        active_tasks=None if of is None else [],
        standby_tasks=None if of is None else [],
        warmup_tasks=None if of is None else [],
    )
    answer = await connection.call(request, StreamsGroupHeartbeatResponse, timeout_ms=ANSWER_MS)
    assert not answer.error_code, answer.error_message
    return answer


async def join(admin: barnabas.Admin) -> int:
    answer = await heartbeat(admin, 0, COUNT)
    for _ in range(ROUNDS_MAX):
        if answer.active_tasks:
            return answer.member_epoch
        await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
        answer = await heartbeat(admin, answer.member_epoch)
    raise AssertionError("the member got no tasks")


async def test_a_streams_group_is_listed_described_explained_and_deleted(tmp_path: Path) -> None:
    first, second = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
    with running_broker(tmp_path, {}) as running:
        async with barnabas.Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            answer = await heartbeat(admin, 0, COUNT)
            waiting = diagnose(await admin.group_report(GROUP))
            assert [finding.name for finding in waiting][:1] == ["topics-missing"]
            assert TOPIC in waiting[0].text
            await heartbeat(admin, -1)
            assert answer.status
            await admin.create_topic(TOPIC, partitions=2)
            epoch = await join(admin)
            described = await admin.describe_group(GROUP)
            assert (described.type, described.state, described.assignor) == (
                "streams", "Stable", "sticky",
            )  # fmt: skip
            assert described.members[0].owned == (first, second)
            report = await admin.group_report(GROUP)
            assert {each.at: each.owner for each in report.partitions} == {
                first: "m1",
                second: "m1",
            }
            assert report.generation == epoch
            assert diagnose(report) == []
            assert [str(task) for task in report.members[0].tasks] == ["0_0", "0_1"]
            shown = document(report)
            assert shown["members"][0]["tasks"] == {"active": ["0_0", "0_1"]}
            assert shown["subtopologies"][0]["changelogs"] == ("app-s-changelog",)
            (summary,) = await admin.group_summaries()
            assert (summary.listing.type, summary.listing.state) == ("streams", "Stable")
            await heartbeat(admin, -1)
            await admin.delete_group(GROUP)
            assert await admin.groups() == []
