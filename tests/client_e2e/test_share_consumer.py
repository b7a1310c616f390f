"""The consumer of a share group, awaited and blocking, against both brokers."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas import AcknowledgeType
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from tests.client_e2e.conftest import OwnBroker, Served, skip_without_share_groups
from tests.waiting import WAIT_S, eventually

LOCK_MS = 8_000  # so long that a member that starves can still renew it
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
REJECT, RENEW = AcknowledgeType.REJECT, AcknowledgeType.RENEW


@pytest.fixture
def share(served: Served, topic: str, group: str) -> "Share":
    skip_without_share_groups(served)
    return Share(served.bootstrap_servers, topic, group)


class Share:
    """A topic and a share group that begins at its first record."""

    def __init__(self, servers: str, topic: str, group: str) -> None:
        self.servers, self.topic, self.group = servers, topic, group

    async def fill(
        self, count: int, partitions: int = 1, options: dict[str, str] | None = None
    ) -> None:
        async with barnabas.Admin(bootstrap_servers=self.servers) as admin:
            await admin.create_topic(self.topic, partitions=partitions)
            put = {"share.auto.offset.reset": "earliest", **(options or {})}
            await admin.alter_group(self.group, put=put)
        await self.add(range(count), partitions)

    async def add(self, numbers: range, partitions: int = 1) -> None:
        async with barnabas.Producer(bootstrap_servers=self.servers) as producer:
            for number in numbers:
                producer.send_nowait(self.topic, b"%d" % number, partition=number % partitions)
            await producer.flush()

    def options(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap_servers": self.servers, "group_id": self.group, **more}

    def consumer(self, **more: Any) -> Any:
        return barnabas.ShareConsumer(self.topic, **self.options(**more))

    def explicit(self, **more: Any) -> Any:
        return self.consumer(share_acknowledgement_mode="explicit", **more)


async def take(consumer: Any, count: int) -> list[Any]:
    """Messages until there are this many."""
    found: list[Any] = []

    async def all_of_them() -> None:
        while len(found) < count:
            found.extend(await consumer.poll(timeout=5))

    await asyncio.wait_for(all_of_them(), WAIT_S)
    return found


async def one_batch(consumer: Any) -> list[Any]:
    async def some() -> list[Any]:
        while not (found := await consumer.poll(timeout=5)):
            pass
        return list(found)

    return await asyncio.wait_for(some(), WAIT_S)


async def test_the_next_poll_accepts_and_nothing_comes_again(share: Share) -> None:
    await share.fill(100, partitions=2)
    async with share.consumer() as consumer:
        assert consumer.subscription() == {share.topic}
        found = await take(consumer, 100)
        assert {message.delivery_count for message in found} == {1}
        assert set((await consumer.commit_sync()).values()) <= {None}
        assert consumer.acquisition_lock_timeout_ms() == 30_000
    async with share.consumer() as consumer:
        await share.add(range(100, 101))
        assert [message.value for message in await one_batch(consumer)] == [b"100"]
    assert sorted(int(message.value) for message in found) == list(range(100))


async def test_a_close_releases_what_the_last_poll_returned(share: Share) -> None:
    await share.fill(10)
    async with share.consumer() as consumer:
        assert len(await one_batch(consumer)) == 10
    async with share.consumer() as consumer:
        again = await one_batch(consumer)
        assert [(message.offset, message.delivery_count) for message in again] == [
            (offset, 2) for offset in range(10)
        ]


async def test_messages_of_an_iteration_are_accepted_one_by_one(share: Share) -> None:
    await share.fill(10)
    async with share.consumer() as consumer:
        async for message in consumer:
            if message.offset == 4:
                break  # the close releases it, and those after it
    async with share.consumer() as consumer:
        again = await one_batch(consumer)
        assert [message.offset for message in again] == list(range(4, 10))


async def test_each_message_is_accepted_released_or_rejected(share: Share) -> None:
    await share.fill(9)
    told: list[tuple[Any, Any]] = []
    async with share.explicit() as consumer:
        consumer.set_acknowledgement_commit_callback(lambda *what: told.append(what))
        messages = await one_batch(consumer)
        for message in messages:
            consumer.acknowledge(message, (ACCEPT, RELEASE, REJECT)[message.offset % 3])
        again = await one_batch(consumer)
        assert [message.offset for message in again] == [1, 4, 7]
        assert {message.delivery_count for message in again} == {2}
        for message in again:
            consumer.acknowledge(message)
        assert list((await consumer.commit_sync()).values()) == [None]
        assert await consumer.poll(timeout=0.2) == []
    (offsets, error), *_ = told
    assert error is None
    at = barnabas.TopicPartition(share.topic, 0)
    assert sorted(offset for one in offsets[at] for offset in one) == list(range(9))


async def test_explicit_acknowledgement_is_complete_before_the_next_poll(share: Share) -> None:
    await share.fill(3)
    async with share.explicit() as consumer:
        messages = await one_batch(consumer)
        consumer.acknowledge(messages[0])
        with pytest.raises(InvalidRequest, match="offset 1, was not acknowledged"):
            await consumer.poll(timeout=1)
        for message in messages[1:]:
            consumer.acknowledge(message)
        assert await consumer.poll(timeout=0.2) == []
        with pytest.raises(InvalidRequest, match="is not held by this consumer"):
            consumer.acknowledge(messages[0])


async def test_implicit_acknowledgement_refuses_explicit_ones(share: Share) -> None:
    await share.fill(1)
    async with share.consumer() as consumer:
        messages = await one_batch(consumer)
        with pytest.raises(InvalidRequest, match=r"share\.acknowledgement\.mode=explicit"):
            consumer.acknowledge(messages[0])


async def test_a_renewed_lock_lasts_longer(share: Share) -> None:
    await share.fill(2, options={"share.record.lock.duration.ms": str(LOCK_MS)})
    async with (
        share.explicit(allow_unacknowledged=True) as consumer,
        share.explicit(allow_unacknowledged=True) as other,
    ):
        (kept, lost) = await take(consumer, 2)
        assert consumer.acquisition_lock_timeout_ms() == LOCK_MS
        again: list[Any] = []
        while not again:
            consumer.acknowledge(kept, RENEW)
            assert list((await consumer.commit_sync()).values()) == [None]
            again = await other.poll(timeout=0.5)
        assert [message.offset for message in again] == [lost.offset]
        consumer.acknowledge(kept)
        assert list((await consumer.commit_sync()).values()) == [None]
        consumer.acknowledge(lost)
        (error,) = (await consumer.commit_sync()).values()
        assert error is not None
        assert error.code is Code.INVALID_RECORD_STATE


async def test_record_limit_locks_no_more_than_was_asked_for(share: Share) -> None:
    await share.fill(20)
    async with (
        share.explicit(share_acquire_mode="record_limit", max_poll_records=5) as one,
        share.explicit(share_acquire_mode="record_limit", max_poll_records=5) as other,
    ):
        first, second = await one_batch(one), await one_batch(other)
        assert len(first) == len(second) == 5
        assert not {m.offset for m in first} & {m.offset for m in second}


async def test_several_members_share_one_partition(share: Share) -> None:
    await share.fill(300)
    found: Counter[int] = Counter()
    by_member: list[int] = []

    async def member() -> None:
        count = 0
        async with share.consumer(max_poll_records=10, share_acquire_mode="record_limit") as one:
            while sum(found.values()) < 300:
                for message in await one.poll(timeout=0.5):
                    found[message.offset] += 1
                    count += 1
                await one.commit_sync()
        by_member.append(count)

    await asyncio.wait_for(asyncio.gather(*(member() for _ in range(3))), WAIT_S)
    assert set(found.values()) == {1}
    assert sorted(found) == list(range(300))


async def test_a_message_that_cannot_be_deserialized_is_raised_and_can_be_rejected(
    share: Share,
) -> None:
    await share.fill(3)

    def not_one(data: bytes) -> int:
        if data == b"1":
            raise ValueError("one")
        return int(data)

    async with share.explicit(value_deserializer=not_one) as consumer:
        (first,) = await one_batch(consumer)
        consumer.acknowledge(first)
        with pytest.raises(barnabas.Unreadable, match="REJECT") as caught:
            await one_batch(consumer)
        consumer.acknowledge(caught.value.message, REJECT)
        (last,) = await one_batch(consumer)
        assert last.value == 2
        consumer.acknowledge(last)
        assert list((await consumer.commit_sync()).values()) == [None]
        assert await consumer.poll(timeout=0.2) == []


async def test_unsubscribe_leaves_the_group_and_subscribe_joins_it_again(share: Share) -> None:
    await share.fill(5)
    async with share.consumer() as consumer:
        assert len(await one_batch(consumer)) == 5
        await consumer.unsubscribe()
        assert consumer.subscription() == frozenset()
        with pytest.raises(InvalidRequest, match="nothing to read"):
            await consumer.poll(timeout=0.1)
        consumer.subscribe(share.topic)
        assert {message.delivery_count for message in await one_batch(consumer)} == {2}


async def test_a_wait_for_messages_can_be_ended(share: Share) -> None:
    await share.fill(0)
    async with share.consumer() as consumer:
        assert await consumer.poll(timeout=0.1) == []
        asyncio.get_running_loop().call_later(0.1, consumer.wakeup)
        with pytest.raises(barnabas.WokenUp):
            await consumer.poll()


async def test_the_blocking_consumer_does_the_same(share: Share) -> None:
    await share.fill(50)

    def read() -> list[int]:
        options = share.options(share_acknowledgement_mode="explicit")
        with barnabas.sync.ShareConsumer(share.topic, **options) as consumer:
            found: list[int] = []
            while len(found) < 50:
                for message in consumer.poll(timeout=5):
                    assert message.delivery_count == 1
                    found.append(message.offset)
                    consumer.acknowledge(message)
            assert set(consumer.commit_sync().values()) <= {None}
        with barnabas.sync.ShareConsumer(share.topic, **share.options()) as consumer:
            assert consumer.poll(timeout=1.5) == []
        return found

    assert sorted(await asyncio.to_thread(read)) == list(range(50))


async def test_the_blocking_consumer_iterates(share: Share) -> None:
    await share.fill(20)

    def read() -> list[int]:
        found = []
        with barnabas.sync.ShareConsumer(share.topic, **share.options()) as consumer:
            for message in consumer:
                found.append(message.offset)
                if len(found) == 20:
                    return found
        raise AssertionError

    assert await asyncio.to_thread(read) == list(range(20))
    await eventually(lambda: threading.active_count() < 20)


async def test_a_share_consumer_says_what_is_missing(served: Served) -> None:
    with pytest.raises(InvalidRequest, match=r"set group\.id"):
        barnabas.ShareConsumer("t", bootstrap_servers=served.bootstrap_servers)
    with pytest.raises(InvalidRequest, match="has no patterns"):
        barnabas.ShareConsumer("^t.*", group_id="g")
    with pytest.raises(InvalidRequest, match="allow_unacknowledged needs"):
        barnabas.ShareConsumer("t", group_id="g", allow_unacknowledged=True)


async def test_a_consumer_reads_on_after_its_broker_was_killed(
    own_broker: OwnBroker, topic: str, group: str
) -> None:
    skip_without_share_groups(own_broker)
    share = Share(own_broker.bootstrap_servers, topic, group)
    await share.fill(20)
    problems: list[KafkaError] = []

    def told(offsets: object, error: KafkaError | None) -> None:
        if error is not None:
            problems.append(error)

    async with share.explicit(max_poll_records=10) as consumer:
        consumer.set_acknowledgement_commit_callback(told)
        first = await one_batch(consumer)
        done = {message.offset for message in first[:5]}
        for message in first[:5]:
            consumer.acknowledge(message)
        assert list((await consumer.commit_sync()).values()) == [None]
        own_broker.kill()
        own_broker.start()
        for message in first[5:]:
            consumer.acknowledge(message)  # not raised: the result says that it was too late
        again: set[int] = set()
        while len(again) < 20 - 5:
            for message in await one_batch(consumer):
                again.add(message.offset)
                consumer.acknowledge(message)
        assert set((await consumer.commit_sync()).values()) == {None}
    assert again == set(range(20)) - done
    assert problems


async def test_a_worker_accepts_releases_and_rejects(share: Share) -> None:
    await share.fill(30, partitions=2)
    calls: Counter[int] = Counter()
    done: list[int] = []

    @barnabas.parallel(
        share.topic, group_id=share.group, share=True, concurrency=4, value_deserializer=int
    )
    async def handle(message: barnabas.Message[bytes | None, int]) -> barnabas.ProducerRecord:
        calls[message.value] += 1
        assert message.delivery_count == calls[message.value]
        assert sum(calls.values()) - len(done) <= 40
        if message.value == 3:
            raise barnabas.Reject("never")
        if message.value == 4 and calls[4] < 3:
            raise ValueError("not yet")
        done.append(message.value)
        return barnabas.ProducerRecord(f"{share.topic}.results", str(message.value))

    running = asyncio.ensure_future(handle.serve(bootstrap_servers=share.servers))

    async def until_done() -> None:
        while len(done) < 29:
            await asyncio.sleep(0.05)

    await asyncio.wait_for(until_done(), WAIT_S)
    handle.stop()
    await running
    assert sorted(done) == [number for number in range(30) if number != 3]
    assert calls[3] == 1
    assert calls[4] == 3
    async with share.consumer() as consumer:
        assert await consumer.poll(timeout=1.5) == []


async def test_a_worker_renews_the_locks_of_slow_calls(share: Share) -> None:
    await share.fill(4, options={"share.record.lock.duration.ms": str(LOCK_MS)})
    calls: Counter[int] = Counter()
    ended = threading.Event()

    @barnabas.parallel(share.topic, group_id=share.group, share=True, concurrency=8)
    def handle(message: barnabas.Message[bytes | None, bytes | None]) -> None:
        calls[message.offset] += 1
        ended.wait(WAIT_S)  # in a thread

    running = asyncio.ensure_future(handle.serve(bootstrap_servers=share.servers))

    async def until_called() -> None:
        while len(calls) < 4:
            await asyncio.sleep(0.05)
        await asyncio.sleep(2.2 * LOCK_MS / 1000)

    await asyncio.wait_for(until_called(), WAIT_S)
    ended.set()
    handle.stop()
    await running
    assert set(calls.values()) == {1}


def test_a_worker_of_a_share_group_refuses_what_the_group_decides() -> None:
    for options in ({"order": "key"}, {"exactly_once": True}, {"dlq": "d"}, {"window": 5}):
        with pytest.raises(InvalidRequest):
            barnabas.parallel("t", group_id="g", share=True, **options)
