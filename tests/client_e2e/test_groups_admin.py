"""What an administrator sees of groups, and does with them: both protocols, both brokers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import barnabas
import barnabas.sync
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.groups.report import GroupReport
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import Served

PROTOCOLS = ("classic", "consumer")
RECORDS = 5


@asynccontextmanager
async def administration(served: Served, topic: str) -> AsyncIterator[barnabas.Admin]:
    """With a topic of two partitions, five records in the first."""
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=2)
        async with barnabas.Producer(bootstrap_servers=served.bootstrap_servers) as producer:
            for _ in range(RECORDS):
                await producer.send(topic, b"x", partition=0)
        yield admin


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_group_is_reported_with_its_members_and_its_lag(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with administration(served, topic) as admin:
        async with barnabas.Consumer(
            topic,
            bootstrap_servers=served.bootstrap_servers,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            messages = [await anext(consumer) for _ in range(2)]
            await consumer.commit(messages[-1])
            described = await admin.describe_group(group)
            assert (described.state, described.type) == ("Stable", protocol)
            assert described.assignor == ("range" if protocol == "classic" else "uniform")
            report = await admin.group_report(group)
            (member,) = report.members
            assert set(member.owned) == {first, second}
            assert member.topics == (topic,)
            partitions = {partition.at: partition for partition in report.partitions}
            assert (partitions[first].committed, partitions[first].lag) == (2, RECORDS - 2)
            assert partitions[first].owner == member.id
            unread_ms = partitions[first].unread_ms
            assert unread_ms is not None
            assert 0 <= unread_ms < 120_000
            assert (partitions[second].committed, partitions[second].lag) == (None, 0)
            assert report.topic_partitions == {topic: 2}
            _check_history(report)
        (summary,) = [each for each in await admin.group_summaries() if each.listing.group == group]
        assert (summary.listing.state, summary.lag) == ("Empty", RECORDS - 2)
        await admin.alter_group_offsets(group, {first: Committed(0)})
        assert (await admin.group_offsets(group))[first].offset == 0
        await admin.delete_group(group)


def _check_history(report: GroupReport) -> None:
    """Where the broker is ours."""
    if report.has_history:
        assert report.rebalances[-1].causes[0].kind == "JOINED"
        assert report.members[0].silent_ms is not None
    else:
        assert report.rebalances == ()


async def test_offsets_are_moved_and_forgotten(served: Served, topic: str, group: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with administration(served, topic) as admin:
        assert await admin.group_offsets(group) == {}
        await admin.alter_group_offsets(
            group, {first: Committed(3, metadata="mine"), second: Committed(0)}
        )
        found = await admin.group_offsets(group)
        assert {at: (each.offset, each.metadata) for at, each in found.items()} == {
            first: (3, "mine"),
            second: (0, ""),
        }
        await admin.delete_group_offsets(group, [second])
        assert list(await admin.group_offsets(group)) == [first]
        await admin.delete_group(group)
        for call in (admin.delete_group(group), admin.describe_group(group)):
            with pytest.raises(InvalidRequest, match=f"there is no group '{group}'") as refused:
                await call
            assert refused.value.code is Code.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_group_with_members_is_not_moved(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    at = TopicPartition(topic, 0)
    async with (
        administration(served, topic) as admin,
        barnabas.Consumer(
            topic,
            bootstrap_servers=served.bootstrap_servers,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        await anext(consumer)
        for call in (
            admin.alter_group_offsets(group, {at: Committed(0)}),
            admin.delete_group(group),
        ):
            with pytest.raises(InvalidRequest, match="stop them first") as refused:
                await call
            assert refused.value.code is Code.NON_EMPTY_GROUP


def test_the_blocking_mirror_asks_the_same(served: Served, topic: str, group: str) -> None:
    at = TopicPartition(topic, 0)
    with barnabas.sync.Admin({"bootstrap.servers": served.bootstrap_servers}) as admin:
        admin.create_topic(topic)
        admin.alter_group_offsets(group, {at: Committed(0)})
        report = admin.group_report(group)
        assert (report.state, report.lag, report.members) == ("Empty", 0, ())
        assert group in [each.group for each in admin.groups()]
        assert admin.times_at({at: 0}) == {}
        admin.delete_group(group)
