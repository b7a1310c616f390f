"""A suite as users of aiokafka write it, on the fixture."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from barnabas.testing import AsyncKafka

aiokafka: Any = pytest.importorskip("aiokafka")


@pytest.fixture
async def orders() -> AsyncIterator[AsyncKafka]:
    """A broker with a topic of two partitions."""
    async with AsyncKafka() as kafka:
        await kafka.create_topic("orders", 2)
        yield kafka


def producer(kafka: AsyncKafka, **more: Any) -> Any:
    return aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **more)


def consumer(kafka: AsyncKafka, group: str | None = "billing", **more: Any) -> Any:
    return aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=60_000,
        **more,
    )


async def send(kafka: AsyncKafka, first: int, last: int) -> None:
    async with producer(kafka) as sends:
        for number in range(first, last):
            await sends.send_and_wait("orders", b"%d" % number, key=b"k%d" % number)


async def take(reads: Any, count: int) -> list[int]:
    return sorted([int((await reads.getone()).value) for _ in range(count)])


async def test_a_consumer_reads_what_a_producer_wrote(orders: AsyncKafka) -> None:
    async with producer(orders) as sends:
        for number in range(5):
            await sends.send_and_wait("orders", b"%d" % number, key=b"k")
    async with consumer(orders) as reads:
        found = [(await reads.getone()).value for _ in range(5)]
        await reads.commit()
    assert found == [b"%d" % n for n in range(5)]
    await orders.wait_for_lag("billing")


async def test_headers_key_and_time_arrive_as_they_were_sent(orders: AsyncKafka) -> None:
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b"")]
    async with producer(orders) as sends:
        await sends.send_and_wait(
            "orders", b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_000, headers=headers
        )
    async with consumer(orders) as reads:
        found = await reads.getone()
    assert list(found.headers) == headers
    assert (found.key, found.partition, found.timestamp) == (b"k", 1, 1_700_000_000_000)


async def test_a_group_continues_at_what_it_has_committed(orders: AsyncKafka) -> None:
    await send(orders, 0, 10)
    async with consumer(orders, enable_auto_commit=False) as reads:
        assert await take(reads, 10) == list(range(10))
        await reads.commit()
    await send(orders, 10, 15)
    async with consumer(orders, enable_auto_commit=False) as reads:
        assert await take(reads, 5) == list(range(10, 15))  # which it does not commit
    async with consumer(orders) as reads:
        assert await take(reads, 5) == list(range(10, 15))


async def test_two_groups_read_everything_each(orders: AsyncKafka) -> None:
    await send(orders, 0, 10)
    async with consumer(orders, "billing") as one, consumer(orders, "audit") as other:
        assert await take(one, 10) == await take(other, 10) == list(range(10))


async def test_a_second_member_takes_over_a_partition_and_gives_it_back(
    orders: AsyncKafka,
) -> None:
    async with consumer(orders, metadata_max_age_ms=500) as first:
        await orders.wait_until(lambda: len(first.assignment()) == 2)
        async with consumer(orders) as second:
            await orders.wait_until(
                lambda: len(first.assignment()) == len(second.assignment()) == 1
            )
            assert not first.assignment() & second.assignment()
        await orders.wait_until(lambda: len(first.assignment()) == 2)
        await send(orders, 0, 10)
        assert await take(first, 10) == list(range(10))
    assert len(await orders.rebalance_history("billing")) >= 3  # joined, joined, left


async def test_records_of_a_transaction_are_seen_together(orders: AsyncKafka) -> None:
    async with producer(orders, transactional_id="t") as sends:
        async with sends.transaction():
            await sends.send_and_wait("orders", b"1", partition=0)
            await sends.send_and_wait("orders", b"2", partition=1)
            assert await orders.records("orders", committed_only=True) == []
        await sends.begin_transaction()
        await sends.send_and_wait("orders", b"3", partition=0)
        await sends.abort_transaction()
    async with consumer(orders, isolation_level="read_committed") as reads:
        assert await take(reads, 2) == [1, 2]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reads.getone(), 0.3)


async def test_a_position_is_set_by_offset_and_by_time(orders: AsyncKafka) -> None:
    async with producer(orders) as sends:
        for number in range(5):
            await sends.send_and_wait(
                "orders", b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + number
            )
    at = aiokafka.TopicPartition("orders", 0)
    reads = aiokafka.AIOKafkaConsumer(bootstrap_servers=orders.bootstrap_servers)
    async with reads:
        reads.assign([at])
        reads.seek(at, 3)
        assert (await reads.getone(at)).value == b"3"
        found = await reads.offsets_for_times({at: 1_700_000_000_002})
        assert found[at].offset == 2
        assert await reads.end_offsets([at]) == {at: 5}
