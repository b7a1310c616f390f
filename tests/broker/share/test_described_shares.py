"""What a broker says about the records that a share group has in flight, and exports about them."""

from pathlib import Path
from uuid import UUID

from barnabas.broker import metrics
from barnabas.broker.handlers import describe_share_partitions
from barnabas.coordinators.share.sessions import ENDED_MAX, SessionKey, ShareSessions
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_share_partitions import (
    DescribedSharePartition,
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
)
from tests.broker.running import Running, running_broker
from tests.broker.share.member import GROUP, Member, share_broker
from tests.broker.share.test_dead_letters import configure
from tests.broker.share.test_session_ends import service_of

ACCEPT, RELEASE, REJECT = 1, 2, 3
STRICT = 1


async def describe(broker: Running, **options: int) -> DescribeSharePartitionsResponse:
    request = DescribeSharePartitionsRequest(group_id=GROUP, **options)
    return await broker.ask(request, DescribeSharePartitionsResponse)


async def described(broker: Running) -> DescribedSharePartition:
    (found,) = (await describe(broker)).partitions
    return found


async def fill_the_window(broker: Running, topic: UUID) -> None:
    """Member m1 keeps offset 0; m2 finishes all others, until nothing more is delivered."""
    await configure(broker, share_partition_max_record_locks="100")
    slow, fast = Member(broker, topic, "m1"), Member(broker, topic, "m2")
    assert (await slow.fetch(wait_ms=5_000, records=1, mode=STRICT)).acquired == [(0, 0, 1)]
    while (found := await fast.fetch(wait_ms=100)).acquired:
        for first, last, _ in found.acquired:
            assert await fast.accept(first, last) is Code.NONE


async def test_the_record_that_holds_the_window_is_named_with_its_member(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 150) as (broker, topic):
        await fill_the_window(broker, topic)
        found = await described(broker)
        assert (found.topic, found.partition, found.start_offset) == ("jobs", 0, 0)
        assert (found.in_flight, found.limit, found.acquired, found.available) == (100, 100, 1, 0)
        (holder,) = found.holder
        assert (holder.offset, holder.attempts, holder.writing) == (0, 1, False)
        assert (holder.client.member_id, holder.client.client_id) == ("m1", "test")
        assert holder.client.host == "203.0.113.7"
        assert 0 <= holder.held_ms < 30_000
        assert 0 < holder.lock_ms <= 30_000
        assert holder.backoff_ms == -1


async def test_a_broker_without_share_groups_reports_none_and_loads_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert (await describe(broker)).partitions == []
        assert broker.broker.share is None


async def test_deliveries_that_failed_are_named_with_their_cause_and_their_member(
    tmp_path: Path,
) -> None:
    async with share_broker(tmp_path, 30) as (broker, topic):
        await configure(broker, barnabas_share_release_backoff_ms="60000")
        stays, leaves = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        assert (await stays.fetch(wait_ms=5_000, records=10)).acquired == [(0, 9, 1)]
        assert (await leaves.fetch(wait_ms=5_000, records=10)).acquired == [(10, 19, 1)]
        assert await stays.accept(0, 4, RELEASE) is Code.NONE
        assert await stays.accept(5, 9, REJECT) is Code.NONE
        await leaves.fetch(epoch=-1)
        found = await described(broker)
        assert [
            (each.cause, each.first_offset, each.last_offset, each.client.member_id, each.archived)
            for each in found.failures
        ] == [
            ("released", 0, 4, "m1", False),
            ("rejected", 5, 9, "m1", True),
            ("session-ended", 10, 19, "m2", False),
        ]
        assert {each.client.client_id for each in found.failures} == {"test"}
        outcomes = {each.name: each.records for each in found.outcomes if each.records}
        assert outcomes == {"released": 5, "rejected": 5, "session-ended": 10, "archived": 5}
        (holder,) = found.holder
        assert (holder.offset, holder.client.member_id, holder.held_ms) == (0, "", -1)
        assert 0 < holder.backoff_ms <= 60_000


async def test_a_response_is_bounded(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 10) as (broker, topic):
        await Member(broker, topic).fetch(wait_ms=5_000)
        found = await describe(broker, partitions_max=0)
        assert (found.count, found.partitions) == (1, [])
        assert len((await describe(broker, partitions_max=1 << 30)).partitions) == 1
        assert describe_share_partitions.PARTITIONS_MAX == 200


def test_the_clients_of_ended_sessions_are_bounded() -> None:
    sessions = ShareSessions(10)
    for number in range(ENDED_MAX + 5):
        key = SessionKey("g", str(number))
        sessions.end(sessions.open(key, (), "c", "x" * 1_000, "/h"))
    assert sessions.client_of("g", "4") == ("", "")
    assert sessions.client_of("g", str(ENDED_MAX + 4)) == ("x" * 200, "/h")
    assert sessions.client_of("g", "5")[1] == "/h"


async def test_share_groups_have_metrics_and_a_broker_without_them_has_none(
    tmp_path: Path,
) -> None:
    async with share_broker(tmp_path / "share", 150) as (broker, topic):
        await fill_the_window(broker, topic)
        lines = (await metrics.page(broker.broker)).decode().splitlines()
        at = '{group="queue",partition="0",topic="jobs"}'
        for line in (
            f"barnabas_share_in_flight{at} 100.0",
            f"barnabas_share_in_flight_limit{at} 100.0",
            f"barnabas_share_lag{at} 51.0",
            f"barnabas_share_partition_deliveries_total{at} 100.0",
            'barnabas_share_outcomes_total{outcome="accepted"} 99.0',
            "barnabas_share_deliveries_total 100.0",
            "barnabas_share_redeliveries_total 0.0",
            "barnabas_share_sessions 2.0",
        ):
            assert line in lines
        (oldest,) = [
            x for x in lines if x.startswith(f"barnabas_share_oldest_unfinished_seconds{at}")
        ]
        assert float(oldest.split()[-1]) > 0
        for share in service_of(broker).partitions:
            share.drop()
        page = (await metrics.page(broker.broker)).decode()
        assert "barnabas_share_deliveries_total 100.0" in page
        assert "barnabas_share_in_flight{" not in page
    async with running_broker(tmp_path / "plain") as broker:
        assert b"barnabas_share" not in await metrics.page(broker.broker)
