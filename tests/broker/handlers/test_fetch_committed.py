"""Readers of committed records: where they stop, what they are told, what wakes them."""

import asyncio

from barnabas.broker.partition import Partition
from barnabas.broker.requests.delayed_fetch import FetchWait
from barnabas.broker.transactions.marker_append import append_marker
from barnabas.log.transactions.append import require_guard
from barnabas.wire.control_records import EndMarker
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tests.broker.handlers.test_fetch import TIME, fetch, offsets_in, only
from tests.broker.handlers.test_list_offsets import LATEST, at, listed
from tests.broker.running import Running
from tests.log.batches import batch
from tests.waiting import eventually

P, Q = 7, 8
VERSION = 12


def partition_of(running: Running, index: int = 0) -> Partition:
    topic = running.broker.topics.get("t")
    assert topic is not None
    return topic.partitions[index]


def write(partition: Partition, sequence: int, producer: int = P) -> int:
    guard = require_guard(partition.log, producer, 0, sequence, has_version_2=False)
    data = batch(1, time=TIME, producer=producer, sequence=sequence, transactional=True)
    return partition.append(data, -1, TIME, guard=guard).base_offset


def end(partition: Partition, producer: int = P, *, commit: bool) -> int:
    return append_marker(partition, producer, 0, EndMarker(commit, 1), 0, TIME).base_offset


def committed(offset: int, wait_ms: int = 0) -> FetchRequest:
    return fetch(offset, isolation_level=1, max_wait_ms=wait_ms)


async def read(running: Running, offset: int) -> PartitionData:
    return only(await running.ask(committed(offset), FetchResponse, VERSION))


async def test_they_stop_at_the_first_open_transaction(running: Running) -> None:
    await running.create("t")
    await running.produce("t", TIME)
    partition = partition_of(running)
    write(partition, 0)
    await running.produce("t", TIME)
    found = await read(running, 0)
    assert offsets_in(found) == [0]
    assert (found.high_watermark, found.last_stable_offset) == (3, 1)
    everything = only(await running.ask(fetch(0), FetchResponse, VERSION))
    assert offsets_in(everything) == [0, 1, 2]
    assert everything.last_stable_offset == 1
    end(partition, commit=True)
    assert offsets_in(await read(running, 0)) == [0, 1, 2, 3]


async def test_they_get_the_aborted_transactions_of_their_range(
    running: Running,
) -> None:
    await running.create("t")
    partition = partition_of(running)
    write(partition, 0)
    write(partition, 0, Q)
    end(partition, commit=False)
    end(partition, Q, commit=True)
    found = await read(running, 0)
    assert offsets_in(found) == [0, 1, 2, 3]
    assert found.aborted_transactions is not None
    assert [(e.producer_id, e.first_offset) for e in found.aborted_transactions] == [(P, 0)]
    assert (await read(running, 3)).aborted_transactions == []
    everything = only(await running.ask(fetch(0), FetchResponse, VERSION))
    assert everything.aborted_transactions is None


async def test_the_end_of_the_log_is_the_last_stable_offset_for_them(running: Running) -> None:
    await running.create("t")
    await running.produce("t", TIME)
    partition = partition_of(running)
    write(partition, 0)
    await running.produce("t", TIME + 5)

    async def listed_at(timestamp: int, isolation: int) -> int:
        (found,) = await listed(running, at(timestamp), isolation_level=isolation)
        return found.offset

    assert await listed_at(LATEST, 1) == 1
    assert await listed_at(LATEST, 0) == 3
    assert await listed_at(TIME + 5, 1) == -1
    assert await listed_at(TIME + 5, 0) == 2
    end(partition, commit=True)
    assert await listed_at(LATEST, 1) == 4
    assert await listed_at(TIME + 5, 1) == 2


async def test_a_long_poll_sleeps_behind_an_open_transaction_until_it_ends(
    running: Running,
) -> None:
    """Woken by each record behind it, the consumer would ask again and again."""
    await running.create("t")
    partition = partition_of(running)
    write(partition, 0)
    poll = asyncio.create_task(
        running.ask(committed(0, wait_ms=60_000), FetchResponse, VERSION, wire=running.connect())
    )
    await eventually(lambda: bool(partition.waiters))
    for sequence in range(1, 50):
        write(partition, sequence)
    await running.produce("t", TIME)
    assert not poll.done()
    assert partition.waiters
    assert not any(isinstance(each, FetchWait) for each in partition.waiters)
    end(partition, commit=True)
    assert offsets_in(only(await poll)) == list(range(52))
    assert not partition.waiters


async def test_a_long_poll_is_woken_by_another_partition(running: Running) -> None:
    await running.create("t", partitions=2)
    held_back = partition_of(running)
    write(held_back, 0)
    poll = asyncio.create_task(
        running.ask(
            fetch(0, 0, isolation_level=1, max_wait_ms=60_000),
            FetchResponse,
            VERSION,
            wire=running.connect(),
        )
    )
    await eventually(lambda: bool(held_back.waiters))
    await running.produce("t", TIME, partition=1)
    response = await poll
    first, second = response.responses[0].partitions
    assert first.records == b""
    assert offsets_in(second) == [0]
    assert not held_back.waiters
