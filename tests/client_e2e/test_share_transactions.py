"""Share groups over records of transactions, against both brokers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import barnabas
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import Served, skip_without_share_groups
from tests.client_e2e.test_share_consumer import Share, take
from tests.waiting import WAIT_S

COMMITTED = {"share.isolation.level": "read_committed"}


@pytest.fixture
def share(served: Served, topic: str, group: str) -> Share:
    skip_without_share_groups(served)
    return Share(served.bootstrap_servers, topic, group)


@asynccontextmanager
async def writer(share: Share, name: str) -> AsyncIterator[Any]:
    id_ = f"{share.topic}-{name}"
    async with barnabas.Producer(bootstrap_servers=share.servers, transactional_id=id_) as producer:
        await producer.init_transactions()
        yield producer


async def write(producer: Any, share: Share, *values: str) -> None:
    for value in values:
        producer.send_nowait(share.topic, value, partition=0)
        await producer.flush()


async def values_of(consumer: Any, count: int) -> list[str]:
    return [message.value.decode() for message in await take(consumer, count)]


async def lag(share: Share) -> int:
    async with barnabas.Admin(bootstrap_servers=share.servers) as admin:
        found = await admin.group_offsets(share.group)
    return found[TopicPartition(share.topic, 0)].lag


async def test_readers_of_committed_records_get_no_aborted_ones_and_reach_the_end(
    share: Share,
) -> None:
    await share.fill(0, options=COMMITTED)
    async with writer(share, "a") as first, writer(share, "b") as second:
        await first.begin_transaction()
        await write(first, share, "a1", "a2")
        await second.begin_transaction()
        await write(second, share, "b1")
        await write(first, share, "a3")
        await first.abort_transaction()
        await write(second, share, "b2")
        await second.commit_transaction()
        await first.begin_transaction()
        await write(first, share, "a4")
        await first.abort_transaction()
        async with share.consumer() as consumer:
            assert await values_of(consumer, 2) == ["b1", "b2"]
            await second.begin_transaction()
            await write(second, share, "b3")
            await second.commit_transaction()
            assert await values_of(consumer, 1) == ["b3"]
            await consumer.commit_sync()
            async with asyncio.timeout(WAIT_S):
                while await lag(share) > 1:  # the last marker is passed over by the next fetch
                    await consumer.poll(timeout=0.1)


async def test_a_waiting_member_gets_the_records_of_a_transaction_when_it_is_committed(
    share: Share,
) -> None:
    await share.fill(0, options=COMMITTED)
    async with writer(share, "a") as producer, share.consumer(fetch_max_wait_ms=30_000) as consumer:
        await producer.begin_transaction()
        await write(producer, share, "a1", "a2")
        await share.add(range(1))  # beyond the last stable offset
        assert await consumer.poll(timeout=1) == []
        waiting = asyncio.ensure_future(values_of(consumer, 3))
        await asyncio.sleep(0)
        await producer.commit_transaction()
        assert await asyncio.wait_for(waiting, WAIT_S) == ["a1", "a2", "0"]


async def test_readers_of_all_records_get_those_of_open_and_aborted_transactions(
    share: Share,
) -> None:
    await share.fill(0)
    async with writer(share, "a") as producer, share.consumer() as consumer:
        await producer.begin_transaction()
        await write(producer, share, "a1")
        assert await values_of(consumer, 1) == ["a1"]
        await producer.abort_transaction()
        await producer.begin_transaction()
        await write(producer, share, "a2")
        assert await values_of(consumer, 1) == ["a2"]
        await producer.commit_transaction()


async def test_a_long_aborted_transaction_does_not_fill_the_window(share: Share) -> None:
    """More records than may be in flight, with one unfinished record before them."""
    options = {**COMMITTED, "share.partition.max.record.locks": "100"}
    await share.fill(1, options=options)
    async with writer(share, "a") as producer, share.explicit(allow_unacknowledged=True) as slow:
        await producer.begin_transaction()
        for number in range(300):
            producer.send_nowait(share.topic, str(number), partition=0)
        await producer.flush()
        await producer.abort_transaction()
        await share.add(range(1, 2))
        (held,) = await take(slow, 1)
        assert held.value == b"0"
        assert await slow.poll(timeout=0.5) == []
        slow.acknowledge(held)
        await slow.commit_sync()
        assert await values_of(slow, 1) == ["1"]
