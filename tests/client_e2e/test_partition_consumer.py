"""The reader of given partitions, awaited and blocking, against both brokers."""

import asyncio
import json
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import OwnBroker, Served
from tests.waiting import WAIT_S

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


async def filled(served: Served, topic: str, counts: dict[int, int], **options: Any) -> None:
    """`counts`: how many records each partition gets; their values are their numbers."""
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=max(counts) + 1)
    async with barnabas.Producer(bootstrap_servers=served.bootstrap_servers, **options) as producer:
        waiting = [
            producer.send_nowait(topic, b"%d" % number, partition=partition, timestamp=number + 1)
            for partition, count in counts.items()
            for number in range(count)
        ]
        await asyncio.gather(*waiting)


def reader_on(served: Served, *partitions: tuple[str, int], **options: Any) -> Any:
    options = {"auto_offset_reset": "earliest", **options}
    return barnabas.PartitionConsumer(
        partitions, bootstrap_servers=served.bootstrap_servers, **options
    )


def values(messages: list[Any]) -> list[int]:
    return [int(message.value) for message in messages]


async def take(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += await asyncio.wait_for(consumer.getmany(count - len(found)), WAIT_S)
    return found


async def test_a_record_is_read_as_it_was_sent(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 0})
    async with barnabas.Producer(bootstrap_servers=served.bootstrap_servers) as producer:
        await producer.send(
            topic, b"value", key=b"key", headers=[("a", b"1"), ("b", None)], timestamp=123
        )
        await producer.send(topic, None, key=b"tombstone")
    async with reader_on(served, (topic, 0)) as consumer:
        first, second = await take(consumer, 2)
    assert (first.topic, first.partition, first.offset, first.timestamp) == (topic, 0, 0, 123)
    assert (first.key, first.value) == (b"key", b"value")
    assert first.headers == (("a", b"1"), ("b", None))
    assert (second.key, second.value, second.headers) == (b"tombstone", None, ())
    assert first.marks.high_watermark == 2


@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_is_read(served: Served, topic: str, codec: str) -> None:
    await filled(served, topic, {0: 1000}, compression_type=codec)
    async with reader_on(served, (topic, 0)) as consumer:
        assert values(await take(consumer, 1000)) == list(range(1000))


async def test_seeking_reads_again_or_leaves_out(served: Served, topic: str) -> None:
    at = (topic, 0)
    await filled(served, topic, {0: 100})
    async with reader_on(served, at) as consumer:
        await take(consumer, 50)
        await consumer.seek(at, 10)
        assert await consumer.position(at) == 10
        assert values(await take(consumer, 3)) == [10, 11, 12]
        assert await consumer.seek_to_time(at, 91) == 90
        assert values(await take(consumer, 10)) == list(range(90, 100))
        assert await consumer.seek_to_time(at, 10**6) == 100
        await consumer.seek_to_beginning()
        assert values(await take(consumer, 2)) == [0, 1]
        await consumer.seek_to_end(at)
        assert await consumer.getmany(timeout=0.1) == []
        await consumer.seek(at, -2)
        assert values(await take(consumer, 1)) == [0]
        with pytest.raises(InvalidRequest, match="-3"):
            await consumer.seek(at, -3)
        with pytest.raises(InvalidRequest, match="is not assigned"):
            await consumer.seek((topic, 7), 0)


async def test_offsets_can_be_asked_for(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 10, 1: 20})
    async with reader_on(served, (topic, 0), (topic, 1)) as consumer:
        ends = {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 20}
        assert await consumer.end_offsets() == ends
        assert await consumer.beginning_offsets((topic, 1)) == {TopicPartition(topic, 1): 0}
        times = await consumer.offsets_for_times({(topic, 0): 5, (topic, 1): 10**9})
        assert times == {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 20}
        assert await consumer.leader((topic, 0)) >= 0


async def test_a_paused_partition_gives_nothing_until_it_is_resumed(
    served: Served, topic: str
) -> None:
    await filled(served, topic, {0: 100, 1: 100})
    async with reader_on(served, (topic, 0), (topic, 1)) as consumer:
        await take(consumer, 2)
        consumer.pause((topic, 0))
        assert consumer.paused() == [(topic, 0)]
        before = await consumer.position((topic, 0))
        rest = 200 - before - await consumer.position((topic, 1))
        assert {m.partition for m in await take(consumer, rest - (100 - before))} == {1}
        assert await consumer.getmany(timeout=0.1) == []
        consumer.resume((topic, 0))
        assert values(await take(consumer, 100 - before)) == list(range(before, 100))


async def test_an_iteration_ends_at_its_stops(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 10, 1: 10})
    async with reader_on(served, (topic, 0), (topic, 1)) as consumer:
        consumer.stop_at({(topic, 0): 4, (topic, 1): 0})
        assert [message.offset async for message in consumer] == [0, 1, 2, 3]
        assert consumer.finished()


async def test_partitions_may_come_and_go(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 5, 1: 5})
    async with reader_on(served, (topic, 0)) as consumer:
        await take(consumer, 3)
        consumer.assign([(topic, 0), (topic, 1)])
        assert len(await take(consumer, 7)) == 7
        consumer.assign([(topic, 1)])
        assert consumer.assignment() == [(topic, 1)]


async def test_a_position_stands_between_two_messages_of_an_iteration(
    served: Served, topic: str
) -> None:
    await filled(served, topic, {0: 10})
    async with reader_on(served, (topic, 0)) as consumer:
        seen = []
        async for message in consumer:
            seen.append(message.offset)
            assert await consumer.position((topic, 0)) == message.offset + 1
            if message.offset == 9:
                break
        assert seen == list(range(10))


async def test_no_message_is_lost_by_a_wait_that_was_given_up(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 200})
    async with reader_on(served, (topic, 0)) as consumer:
        found: list[int] = []
        while len(found) < 200:
            try:
                async with asyncio.timeout(0.002):
                    found += values(await consumer.getmany(7))
            except TimeoutError:
                pass
        assert found == list(range(200))


async def test_by_duration_begins_that_long_ago(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 3})  # of 1970
    async with barnabas.Producer(bootstrap_servers=served.bootstrap_servers) as producer:
        await producer.send(topic, b"99", partition=0)
    reset = "by_duration:PT1H"
    async with reader_on(served, (topic, 0), auto_offset_reset=reset) as consumer:
        assert values(await take(consumer, 1)) == [99]
    async with reader_on(served, (topic, 0), auto_offset_reset="latest") as consumer:
        assert await consumer.position((topic, 0)) == 4
    with pytest.raises(InvalidRequest, match="PT1H"):
        reader_on(served, (topic, 0), auto_offset_reset="by_duration:1h")


async def test_a_deserializer_that_fails_stops_at_its_message(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 1})
    async with barnabas.Producer(bootstrap_servers=served.bootstrap_servers) as producer:
        await producer.send(topic, b"{")
        await producer.send(topic, b"2")
    async with reader_on(served, (topic, 0), value_deserializer=json.loads) as consumer:
        assert [message.value for message in await consumer.getmany()] == [0]
        for _ in range(2):
            with pytest.raises(barnabas.Unreadable, match="Seek to 2 to skip it"):
                await consumer.getmany()
        await consumer.seek((topic, 0), 2)
        assert (await consumer.getone()).value == 2


async def test_interceptors_see_messages_and_commits(
    served: Served, topic: str, group: str
) -> None:
    class Seen:
        def __init__(self) -> None:
            self.log: list[Any] = []

        def on_consume(self, messages: list[Any]) -> list[Any]:
            self.log.append(len(messages))
            return messages[:1]

        def on_commit(self, offsets: Any) -> None:
            self.log.append({at: place.offset for at, place in offsets.items()})

    seen = Seen()
    await filled(served, topic, {0: 3})
    async with reader_on(served, (topic, 0), group_id=group, interceptors=[seen]) as consumer:
        [message] = await consumer.getmany()
        await consumer.commit(message)
    assert seen.log == [3, {(topic, 0): 1}]


async def test_a_reader_commits_the_given_offsets(served: Served, topic: str, group: str) -> None:
    at = (topic, 0)
    await filled(served, topic, {0: 30})
    async with reader_on(served, at, group_id=group) as consumer:
        await take(consumer, 10)
        await consumer.commit()
        await consumer.commit_nowait({at: barnabas.Committed(12, metadata="why")})
        await consumer.getmany(1)
        assert await consumer.committed() == {at: barnabas.Committed(12, -1, "why")}
    async with reader_on(served, at, group_id=group) as consumer:
        assert await consumer.position(at) == 12
    async with reader_on(served, at) as consumer:
        with pytest.raises(InvalidRequest, match=r"set group\.id"):
            await consumer.commit()


async def test_rows_come_as_arrow(served: Served, topic: str) -> None:
    pytest.importorskip("pyarrow")
    await filled(served, topic, {0: 50, 1: 60}, compression_type="lz4")
    async with reader_on(served, (topic, 0), (topic, 1)) as consumer:
        await take(consumer, 5)
        rows: list[Any] = []
        while len(rows) < 105:
            batch = await consumer.read_arrow(1000, timeout=WAIT_S)
            rows += batch.to_pylist()
        assert {row["partition"] for row in rows} == {0, 1}
        assert len({(row["partition"], row["offset"]) for row in rows}) == 105
        assert all(int(row["value"]) == row["offset"] for row in rows)
        assert (await consumer.read_arrow(timeout=0.1)).num_rows == 0
        assert await consumer.position((topic, 0)) == 50


async def test_a_topic_that_is_not_there_is_named(served: Served) -> None:
    options = {"allow_auto_create_topics": False}
    async with reader_on(served, ("absent", 0), **options) as consumer:
        with pytest.raises(InvalidRequest, match="'absent'") as refused:
            await consumer.getmany(timeout=WAIT_S)
    assert refused.value.code is Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_reading_goes_on_when_the_broker_is_back(own_broker: OwnBroker, topic: str) -> None:
    await filled(own_broker, topic, {0: 3})
    async with reader_on(own_broker, (topic, 0)) as consumer:
        assert values(await take(consumer, 3)) == [0, 1, 2]
        waiting = asyncio.ensure_future(consumer.getone())
        await asyncio.to_thread(own_broker.restart)
        async with barnabas.Producer(bootstrap_servers=own_broker.bootstrap_servers) as producer:
            await producer.send(topic, b"3")
        assert int((await asyncio.wait_for(waiting, WAIT_S)).value) == 3


def test_a_blocking_reader_does_the_same(served: Served, topic: str) -> None:
    asyncio.run(filled(served, topic, {0: 100, 1: 100}))
    with barnabas.sync.PartitionConsumer(
        [(topic, 0), (topic, 1)],
        bootstrap_servers=served.bootstrap_servers,
        auto_offset_reset="earliest",
    ) as consumer:
        found: list[Any] = []
        while len(found) < 200:
            found += consumer.getmany(30)
        for number in (0, 1):
            of_one = [m.offset for m in found if m.partition == number]
            assert of_one == list(range(100))
        assert consumer.getmany(timeout=0.05) == []
        consumer.seek((topic, 1), 95)
        consumer.stop_at({(topic, 0): 100, (topic, 1): 100})
        assert [message.offset for message in consumer] == [95, 96, 97, 98, 99]
        assert consumer.position((topic, 0)) == 100
        with pytest.raises(TimeoutError):
            consumer.getone(timeout=0.05)


async def test_ways_of_asking_may_be_mixed(served: Served, topic: str, group: str) -> None:
    """And committing all that was handed out neither loses nor repeats a message."""
    at = (topic, 0)
    await filled(served, topic, {0: 30})
    options = {"group_id": group, "value_deserializer": int}
    async with reader_on(served, at, **options) as consumer:
        seen: list[int] = []
        async for message in consumer:
            seen.append(message.value)
            await consumer.commit()
            if len(seen) == 5:
                break
        assert (await consumer.committed())[at].offset == 5
        seen += [message.value for message in await consumer.getmany(3)]
        seen.append((await consumer.getone()).value)
        assert await consumer.position(at) == 9
        consumer.pause(at)
        assert await consumer.getmany(timeout=0.05) == []
        consumer.resume(at)
        async for message in consumer:
            seen.append(message.value)
            if len(seen) == 30:
                break
    assert seen == list(range(30))


async def test_two_tasks_cannot_ask_at_once_and_a_close_ends_the_wait(
    served: Served, topic: str
) -> None:
    await filled(served, topic, {0: 0})
    consumer = reader_on(served, (topic, 0))
    waiting = asyncio.ensure_future(consumer.getone())
    await asyncio.sleep(0)
    with pytest.raises(InvalidRequest, match="one task or thread at a time"):
        await consumer.getmany(timeout=0.1)
    await consumer.close()
    with pytest.raises(InvalidRequest, match="the consumer is closed"):
        await asyncio.wait_for(waiting, WAIT_S)
