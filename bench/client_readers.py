"""Clients that read: one function per client, of (servers, topic, count), for client_child.py.

Each reads all partitions of a topic that holds `count` records and some to warm up, in as large
pieces as it gives, with a message object per record; to Arrow, without.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bench.clock import Clock

PARTITIONS = 6
WARM_UP = 2_000
AT_ONCE = 10_000


def _ours(topic: str, servers: str) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    partitions = [(topic, number) for number in range(PARTITIONS)]
    return partitions, {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}


async def read_ours(servers: str, topic: str, count: int) -> dict[str, Any]:
    from barnabas import PartitionConsumer

    partitions, options = _ours(topic, servers)
    async with PartitionConsumer(partitions, **options) as consumer:
        left = count - len(await consumer.getmany(WARM_UP))
        clock = Clock()
        while left > 0:
            left -= len(await consumer.getmany(AT_ONCE))
        return clock.result()


async def iterate_ours(servers: str, topic: str, count: int) -> dict[str, Any]:
    from barnabas import PartitionConsumer

    partitions, options = _ours(topic, servers)
    async with PartitionConsumer(partitions, **options) as consumer:
        left = count - len(await consumer.getmany(WARM_UP))
        clock = Clock()
        async for _ in consumer:
            left -= 1
            if left <= 0:
                break
        return clock.result()


def read_ours_blocking(servers: str, topic: str, count: int) -> dict[str, Any]:
    from barnabas.sync import PartitionConsumer

    partitions, options = _ours(topic, servers)
    with PartitionConsumer(partitions, **options) as consumer:
        left = count - len(consumer.getmany(WARM_UP))
        clock = Clock()
        while left > 0:
            left -= len(consumer.getmany(AT_ONCE))
        return clock.result()


async def read_ours_as_arrow(servers: str, topic: str, count: int) -> dict[str, Any]:
    from barnabas import PartitionConsumer

    partitions, options = _ours(topic, servers)
    async with PartitionConsumer(partitions, **options) as consumer:
        left = count - (await consumer.read_arrow(1)).num_rows
        clock = Clock()
        while left > 0:
            left -= (await consumer.read_arrow()).num_rows
        return clock.result()


def read_confluent(
    servers: str, topic: str, count: int, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            **(options or {}),
        }
    )
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    left = count - len(consumer.consume(WARM_UP, 10))
    clock = Clock()
    while left > 0:
        left -= len(consumer.consume(AT_ONCE, 1))
    result = clock.result()
    consumer.close()
    return result


def read_confluent_eager(servers: str, topic: str, count: int) -> dict[str, Any]:
    """As it comes it waits a second whenever it is ahead of its reader: here it does not."""
    return read_confluent(servers, topic, count, {"fetch.queue.backoff.ms": 5})


async def read_aiokafka(servers: str, topic: str, count: int) -> dict[str, Any]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    found = await consumer.getmany(timeout_ms=10_000, max_records=WARM_UP)
    left = count - sum(map(len, found.values()))
    clock = Clock()
    while left > 0:
        found = await consumer.getmany(timeout_ms=1_000, max_records=AT_ONCE)
        left -= sum(map(len, found.values()))
    result = clock.result()
    await consumer.stop()
    return result


def read_kafka_python(servers: str, topic: str, count: int) -> dict[str, Any]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    found = consumer.poll(10_000, max_records=WARM_UP)
    left = count - sum(map(len, found.values()))
    clock = Clock()
    while left > 0:
        found = consumer.poll(1_000, max_records=AT_ONCE)
        left -= sum(map(len, found.values()))
    result = clock.result()
    consumer.close()
    return result


READERS: dict[str, Callable[[str, str, int], Any]] = {
    "barnabas": read_ours,
    "barnabas.sync": read_ours_blocking,
    "barnabas-async-for": iterate_ours,
    "barnabas-arrow": read_ours_as_arrow,
    "confluent-kafka": read_confluent,
    "confluent-kafka-eager": read_confluent_eager,
    "aiokafka": read_aiokafka,
    "kafka-python": read_kafka_python,
}
