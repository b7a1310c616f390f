"""What the tests of Spark write and look at with a client of its own."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

HEADERS: list[tuple[str, str | bytes | None]] = [("origin", b"test"), ("empty", None)]


def create(servers: str, topic: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def grow(servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(30)


def cut(servers: str, topic: str, partition: int, before: int) -> None:
    """Delete the records of a partition below an offset."""
    admin = AdminClient({"bootstrap.servers": servers})
    at = TopicPartition(topic, partition, before)
    for done in admin.delete_records([at]).values():
        done.result(30)


def produce(
    servers: str, topic: str, numbers: Iterable[int], *, first_ms: int = 0, options: Any = None
) -> None:
    """Record n goes to partition n % 3, at `first_ms` + n seconds if that is given."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **(options or {})})
    for number in numbers:
        producer.produce(
            topic,
            None if number % 7 == 3 else b"value %d" % number,
            key=None if number % 5 == 2 else b"key %d" % number,
            partition=number % 3,
            headers=HEADERS if number % 2 else None,
            timestamp=first_ms + number * 1000 if first_ms else 0,
        )
    assert producer.flush(30) == 0


def committed(servers: str, group: str, topic: str, partitions: int = 3) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return [at.offset for at in consumer.committed(places, timeout=60)]
    finally:
        consumer.close()
