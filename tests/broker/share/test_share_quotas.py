"""Quotas of share fetches: bytes of records count as for other fetches, requests by their time.

No test waits for the time itself: a client that has to wait is set free when its quota is removed.
"""

from pathlib import Path

from barnabas.model.errors import Code
from barnabas.security.quotas.quota_limits import QuotaKind
from tests.broker.handlers.test_client_quotas import set_quota
from tests.broker.running import Running
from tests.broker.security.test_quotas import CLIENT, end_quotas, is_read
from tests.broker.share.member import Member, Reply, share_broker

ACCEPT = 1
WINDOWS_S = 10  # those whose bytes a client may use at once


def size(reply: Reply) -> int:
    assert reply.partition is not None
    assert isinstance(reply.partition.records, bytes | memoryview)
    return len(reply.partition.records)


def used(broker: Running) -> float:
    assert broker.broker.quotas is not None
    usage = broker.broker.quotas.usage(QuotaKind.FETCH, "ANONYMOUS", "test")
    assert usage is not None
    return usage.rate.total(broker.broker.clock.monotonic_ms())


async def size_of_a_batch(broker: Running, topic: object) -> int:
    """Its records are released."""
    member = Member(broker, topic, "before")  # type: ignore[arg-type]
    found = size(await member.fetch(records=10, wait_ms=5_000))
    await member.fetch(epoch=-1)
    return found


async def test_a_member_over_its_quota_acquires_nothing_and_waits(tmp_path: Path) -> None:
    """Nor does it lose an attempt. Its acknowledgements are stored."""
    async with share_broker(tmp_path, 30) as (broker, topic):
        batch = await size_of_a_batch(broker, topic)
        await set_quota(broker, CLIENT, consumer_byte_rate=batch * 1.5 // WINDOWS_S)
        member = Member(broker, topic)
        first = await member.fetch(records=10, wait_ms=5_000)
        assert (first.acquired, first.response.throttle_time_ms) == ([(0, 9, 2)], 0)
        assert used(broker) == size(first)
        second = await member.fetch((0, 9, ACCEPT), records=10, wait_ms=60_000)
        assert (second.code, second.ack, second.acquired) == (Code.NONE, Code.NONE, [])
        assert second.response.throttle_time_ms > 0
        assert used(broker) == size(first), "not sent, not used"
        assert not is_read(member.wire)
        await end_quotas(broker)
        third = await member.fetch(records=20, wait_ms=5_000)
        assert third.acquired == [(10, 29, 1)]


async def test_only_acquired_batches_count(tmp_path: Path) -> None:
    """Not all that could be read within the limit of bytes."""
    async with share_broker(tmp_path, 100) as (broker, topic):
        batch = await size_of_a_batch(broker, topic)
        await set_quota(broker, CLIENT, consumer_byte_rate=batch * 3.5 // WINDOWS_S)
        member = Member(broker, topic)
        for number in range(3):
            reply = await member.fetch(records=10, wait_ms=5_000)
            assert len(reply.offsets) == 10
            assert used(broker) == batch * (number + 1)


async def test_no_reply_is_larger_than_what_may_be_fetched_in_all_windows(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 100) as (broker, topic):
        batch = await size_of_a_batch(broker, topic)
        await set_quota(broker, CLIENT, consumer_byte_rate=batch * 3.5 // WINDOWS_S)
        reply = await Member(broker, topic).fetch(records=500, wait_ms=5_000)
        assert reply.response.throttle_time_ms == 0
        assert len(reply.offsets) == 30


async def test_a_batch_larger_than_all_windows_is_sent_all_the_same(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        await set_quota(broker, CLIENT, consumer_byte_rate=2.0)
        reply = await Member(broker, topic).fetch(records=500, wait_ms=5_000)
        assert reply.acquired == [(0, 9, 1)]
        assert reply.response.throttle_time_ms > 10_000


async def test_share_fetches_over_their_time_wait_for_one_window_at_most(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        await set_quota(broker, CLIENT, request_percentage=0.000001)
        member = Member(broker, topic)
        reply = await member.fetch(records=10, wait_ms=5_000)
        assert reply.acquired == [(0, 9, 1)]
        assert 0 < reply.response.throttle_time_ms <= 1_000
        assert not is_read(member.wire)
