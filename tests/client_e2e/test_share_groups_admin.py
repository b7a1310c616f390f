"""What an administrator sees of a share group, and does with it."""

import asyncio
from pathlib import Path

import barnabas
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.groups.diagnosis import diagnose
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.process import running_broker
from tests.waiting import WAIT_S

GROUP, TOPIC, RECORDS = "queue", "jobs", 5
ROUNDS_MAX = 200
ANSWER_MS = int(WAIT_S * 1000)


async def heartbeat(admin: barnabas.Admin, epoch: int) -> ShareGroupHeartbeatResponse:
    connection = await admin._cluster.coordinator(GROUP)
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m1",
        member_epoch=epoch,
        subscribed_topic_names=[TOPIC] if epoch == 0 else None,
    )
    answer = await connection.call(request, ShareGroupHeartbeatResponse, timeout_ms=ANSWER_MS)
    assert not answer.error_code, answer.error_message
    return answer


async def join(admin: barnabas.Admin) -> None:
    answer = await heartbeat(admin, 0)
    for _ in range(ROUNDS_MAX):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return
        await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
        answer = await heartbeat(admin, answer.member_epoch)
    raise AssertionError("the member got no partitions")


async def test_a_share_group_is_listed_described_moved_and_deleted(tmp_path: Path) -> None:
    first, second = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
    with running_broker(tmp_path, {}) as running:
        servers = running.bootstrap_servers
        async with barnabas.Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic(TOPIC, partitions=2)
            async with barnabas.Producer(bootstrap_servers=servers) as producer:
                for _ in range(RECORDS):
                    await producer.send(TOPIC, b"x", partition=0)
            await join(admin)
            described = await admin.describe_group(GROUP)
            assert (described.type, described.state, described.assignor) == (
                "share", "Stable", "simple",
            )  # fmt: skip
            assert described.members[0].owned == (first, second)
            await heartbeat(admin, -1)
            await admin.alter_group_offsets(GROUP, {first: Committed(2), second: Committed(0)})
            report = await admin.group_report(GROUP)
            assert {each.at: (each.committed, each.lag) for each in report.partitions} == {
                first: (2, RECORDS - 2),
                second: (0, 0),
            }
            assert [finding.name for finding in diagnose(report)] == ["no-members"]
            (summary,) = await admin.group_summaries()
            assert (summary.listing.type, summary.lag) == ("share", RECORDS - 2)
            await admin.delete_group_offsets(GROUP, [first, second])
            assert await admin.group_offsets(GROUP) == {}
            await admin.delete_group(GROUP)
            assert await admin.groups() == []
