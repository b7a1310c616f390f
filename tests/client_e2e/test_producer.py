"""The producer, awaited and blocking, against both brokers."""

import asyncio
import json
import os
import threading
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.client.producer.record import ProducerRecord
from barnabas.model.errors import Code, Failed, InvalidRequest, KafkaError, Retriable
from tests.client_e2e.conftest import OwnBroker, Served
from tests.client_e2e.reading import read_back
from tests.process import BrokerProcess
from tests.waiting import WAIT_S, until

ROUNDS = int(os.environ.get("ROUNDS", "3"))
OUTLIVES: dict[str, Any] = {
    "batch_size": 2_000,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 500_000,
}


async def with_topic(served: Served, topic: str, partitions: int = 1, **configs: str) -> None:
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        options = {name.replace("_", "."): value for name, value in configs.items()}
        await admin.create_topic(topic, partitions=partitions, configs=options)


def producer_on(served: Served, **options: Any) -> barnabas.Producer:
    return barnabas.Producer(bootstrap_servers=served.bootstrap_servers, **options)


async def test_a_record_arrives_as_it_was_sent(served: Served, topic: str) -> None:
    await with_topic(served, topic, 3)
    async with producer_on(served) as producer:
        written = await producer.send(
            topic,
            b"value",
            key=b"key",
            headers=[("a", b"1"), ("b", None)],
            partition=2,
            timestamp=1_700_000_000_123,
        )
    assert written == (topic, 2, 0, 1_700_000_000_123)
    assert read_back(served.bootstrap_servers, topic, 3) == [
        (2, 0, 1_700_000_000_123, b"key", b"value", [("a", b"1"), ("b", None)])
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_is_read_by_others(served: Served, topic: str, codec: str) -> None:
    async with producer_on(served, compression_type=codec) as producer:
        await asyncio.gather(*(producer.send(topic, b"%d" % n * 50) for n in range(100)))
    found = read_back(served.bootstrap_servers, topic)
    assert [record.value for record in found] == [b"%d" % n * 50 for n in range(100)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_acks_are_honoured(served: Served, topic: str, acks: str) -> None:
    await with_topic(served, topic)
    async with producer_on(served, acks=acks) as producer:
        written = [await producer.send(topic, b"%d" % n) for n in range(5)]
        offsets = [-1] * 5 if acks == "0" else [0, 1, 2, 3, 4]
        assert [each.offset for each in written] == offsets
    # Without acks a close may be quicker than the broker.
    until(lambda: len(read_back(served.bootstrap_servers, topic)) == 5)
    found = read_back(served.bootstrap_servers, topic)
    assert [record.value for record in found] == [b"%d" % n for n in range(5)]


async def test_keys_go_where_other_clients_put_them(served: Served, topic: str) -> None:
    from confluent_kafka import Producer as Other

    await with_topic(served, topic, 7)
    where: dict[bytes, int] = {}
    async with producer_on(served) as producer:
        for number in range(50):
            key = b"key-%d" % number
            where[key] = (await producer.send(topic, b"", key=key)).partition
    other = Other({"bootstrap.servers": served.bootstrap_servers, "partitioner": "murmur2_random"})
    theirs: dict[bytes, int] = {}

    def placed(_: object, message: Any) -> None:
        theirs[message.key()] = message.partition()

    for key in where:
        other.produce(topic, b"", key=key, on_delivery=placed)
    other.flush()
    assert theirs == where


async def test_records_without_keys_are_spread(served: Served, topic: str) -> None:
    await with_topic(served, topic, 4)
    async with producer_on(served) as producer:
        for _ in range(4_000):
            producer.send_nowait(topic, bytes(100))
            await producer.drain()
        await producer.flush()
    found = read_back(served.bootstrap_servers, topic, 4)
    assert len(found) == 4_000
    assert len({record.partition for record in found}) > 1


async def test_ones_own_partitioner_serializers_and_interceptors_are_used(
    served: Served, topic: str
) -> None:
    class Stamp:
        def __init__(self) -> None:
            self.acknowledged: list[int] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(headers=(*record.headers, ("stamp", b"1")))

        def on_acknowledgement(
            self, metadata: barnabas.RecordMetadata | None, error: KafkaError | None
        ) -> None:
            assert metadata is not None
            self.acknowledged.append(metadata.partition)

    await with_topic(served, topic, 3)
    stamp = Stamp()
    async with producer_on(
        served,
        key_serializer=str.encode,
        value_serializer=lambda value: json.dumps(value).encode(),
        partitioner=lambda topic, key, value, count: count - 1,
        interceptors=[stamp],
    ) as producer:
        await producer.send(topic, {"a": 1}, key="k")
    (record,) = read_back(served.bootstrap_servers, topic, 3)
    assert (record.partition, record.key, record.value) == (2, b"k", b'{"a": 1}')
    assert record.headers == [("stamp", b"1")]
    assert stamp.acknowledged == [2]


async def test_a_batch_that_is_too_large_is_split(served: Served, topic: str) -> None:
    await with_topic(served, topic, max_message_bytes="5000")
    async with producer_on(served, linger_ms=50) as producer:
        deliveries = [producer.send_nowait(topic, b"%04d" % n * 100) for n in range(100)]
        offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == list(range(100))
    found = read_back(served.bootstrap_servers, topic)
    assert [record.value for record in found] == [b"%04d" % n * 100 for n in range(100)]


async def test_a_record_that_is_too_large_is_refused_and_the_others_are_written(
    served: Served, topic: str
) -> None:
    await with_topic(served, topic, max_message_bytes="5000")
    async with producer_on(served, linger_ms=50) as producer:
        deliveries = [producer.send_nowait(topic, b"%d" % n) for n in range(5)]
        giant = producer.send_nowait(topic, bytes(10_000))
        deliveries += [producer.send_nowait(topic, b"%d" % n) for n in range(5, 10)]
        with pytest.raises(InvalidRequest, match=r"max\.message\.bytes") as refused:
            await giant
        assert [(await delivery).offset for delivery in deliveries] == list(range(10))
    assert refused.value.code is Code.MESSAGE_TOO_LARGE
    with pytest.raises(InvalidRequest, match=r"max\.request\.size"):
        producer_on(served).send_nowait(topic, bytes(2_000_000))


async def test_a_full_buffer_makes_send_wait_and_send_nowait_raise(
    served: Served, topic: str
) -> None:
    async with producer_on(served, buffer_memory=10_000) as producer:
        full = None
        for _ in range(200):
            try:
                producer.send_nowait(topic, bytes(100))
            except barnabas.BufferFull as problem:
                full = problem
        assert "buffer.memory is 10000" in str(full)
        await asyncio.gather(*(producer.send(topic, bytes(100)) for _ in range(300)))
        await producer.flush()
    assert len(read_back(served.bootstrap_servers, topic)) > 300


async def test_drain_after_each_hundred_records_leaves_room_for_the_next_hundred(
    served: Served, topic: str
) -> None:
    """As docs/CLIENT.md says, with a buffer that is far smaller than what is sent."""
    async with producer_on(served, buffer_memory=250_000, batch_size=20_000) as producer:
        for number in range(10_000):
            producer.send_nowait(topic, bytes(1_000))
            if number % 100 == 99:
                await producer.drain()
        await producer.flush()
    assert len(read_back(served.bootstrap_servers, topic)) == 10_000


def test_drain_of_a_blocking_producer_leaves_room_for_a_hundred_records_too(
    served: Served, topic: str
) -> None:
    with barnabas.sync.Producer(
        bootstrap_servers=served.bootstrap_servers, buffer_memory=250_000, batch_size=20_000
    ) as producer:
        for number in range(10_000):
            producer.send_nowait(topic, bytes(1_000))
            if number % 100 == 99:
                producer.drain()
        producer.flush()
    assert len(read_back(served.bootstrap_servers, topic)) == 10_000


async def test_callbacks_and_flush_report_failures(served: Served, topic: str) -> None:
    await with_topic(served, topic, max_message_bytes="1000")
    told: list[tuple[object, object]] = []
    producer = producer_on(served)
    producer.send_nowait(topic, b"x", callback=lambda *what: told.append(what))
    producer.send_nowait(topic, bytes(2_000), callback=lambda *what: told.append(what))
    await producer.flush()
    assert isinstance(told[0][0], barnabas.RecordMetadata)
    assert isinstance(told[1][1], InvalidRequest)
    producer.send_nowait(topic, bytes(2_000))
    with pytest.raises(Failed, match="1 records were not written"):
        await producer.flush()
    await producer.close()
    with pytest.raises(InvalidRequest, match="closed"):
        producer.send_nowait(topic, b"x")


def test_the_blocking_mirror_sends_alike(served: Served, topic: str) -> None:
    told: list[object] = []
    with barnabas.sync.Producer({"bootstrap.servers": served.bootstrap_servers}) as producer:
        assert producer.send(topic, "text", key="k").offset == 0
        deliveries = []
        for number in range(1_000):
            delivery = producer.send_nowait(
                topic, b"%d" % number, callback=lambda metadata, _: told.append(metadata)
            )
            deliveries.append(delivery)
            producer.drain()
        assert [delivery.result(WAIT_S).offset for delivery in deliveries] == list(range(1, 1_001))
        with pytest.raises(InvalidRequest, match="'not/a/topic'"):
            producer.send("not/a/topic", b"")
    assert len(told) == 1_000
    found = read_back(served.bootstrap_servers, topic)
    assert [record.value for record in found[1:]] == [b"%d" % n for n in range(1_000)]


def test_threads_may_share_a_blocking_producer(served: Served, topic: str) -> None:
    with barnabas.sync.Producer(bootstrap_servers=served.bootstrap_servers) as producer:
        producer.send(topic, b"first")

        def work(name: bytes) -> None:
            for number in range(300):
                producer.send_nowait(topic, b"%s-%03d" % (name, number))

        threads = [threading.Thread(target=work, args=(name,)) for name in (b"a", b"b", b"c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
    found = [record.value or b"" for record in read_back(served.bootstrap_servers, topic)]
    for name in (b"a", b"b", b"c"):
        own = [value for value in found if value.startswith(name)]
        assert own == [b"%s-%03d" % (name, number) for number in range(300)]


async def test_nothing_is_lost_doubled_or_reordered_when_the_broker_is_killed(
    own_broker: OwnBroker, topic: str
) -> None:
    async with producer_on(own_broker, **OUTLIVES) as producer:
        await producer.send(topic, b"000")
        deliveries = []
        loop = asyncio.get_running_loop()
        lives = 3 if isinstance(own_broker, BrokerProcess) else 1  # a JVM takes ten seconds
        for life in range(lives):
            for number in range(300):
                deliveries.append(producer.send_nowait(topic, b"%d-%03d" % (life, number)))
                if number % 50 == 0:
                    await asyncio.sleep(0)
            own_broker.kill()
            await asyncio.gather(loop.run_in_executor(None, own_broker.start), producer.flush())
        for delivery in deliveries:
            await delivery
    found = [record.value for record in read_back(own_broker.bootstrap_servers, topic)]
    assert found == [b"000"] + [b"%d-%03d" % (life, n) for life in range(lives) for n in range(300)]


def test_the_blocking_producer_outlives_its_broker_too(own_broker: OwnBroker, topic: str) -> None:
    servers = own_broker.bootstrap_servers
    with barnabas.sync.Producer(bootstrap_servers=servers, **OUTLIVES) as producer:
        producer.send(topic, b"000")
        for number in range(300):
            producer.send_nowait(topic, b"%03d" % number)
        own_broker.kill()
        again = threading.Thread(target=own_broker.start)
        again.start()
        producer.flush()
        again.join()
    found = [record.value for record in read_back(servers, topic)]
    assert found == [b"000"] + [b"%03d" % number for number in range(300)]


async def test_what_is_acknowledged_is_written_while_a_topic_is_deleted_and_recreated(
    served: Served, topic: str
) -> None:
    """The log that acknowledged a record may be deleted, but its offset is never unknown."""
    offsets: list[int] = []

    def told(metadata: barnabas.RecordMetadata | None, error: KafkaError | None) -> None:
        offsets.append(-1 if metadata is None else metadata.offset)

    async with (
        barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin,
        producer_on(served, allow_auto_create_topics="false", batch_size=200) as producer,
    ):
        await admin.create_topic(topic)
        await producer.send(topic, b"first")
        sent = 0
        for _ in range(ROUNDS):

            async def recreate() -> None:
                await admin.delete_topic(topic)
                await admin.create_topic(topic)

            recreating = asyncio.create_task(recreate())
            while not recreating.done():
                producer.send_nowait(topic, b"%d" % sent, callback=told)
                sent += 1
                await asyncio.sleep(0.001)
            await recreating
            assert (await producer.send(topic, b"last")).offset >= 0
        await producer.flush()
    assert len(offsets) == sent
    assert min(offsets) >= 0


async def test_an_unreachable_cluster_is_reported_once_and_quickly() -> None:
    producer = barnabas.Producer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(Retriable, match=r"no broker at .*: Connection refused"):
        await producer.send("t", b"x")
    with pytest.raises(Retriable, match="no broker at"):
        async with barnabas.Producer(bootstrap_servers="127.0.0.1:1"):
            pass
    with (
        pytest.raises(Retriable, match="no broker at"),
        barnabas.sync.Producer(bootstrap_servers="127.0.0.1:1"),
    ):
        pass
