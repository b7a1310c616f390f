"""What the tests of Spark write and look at with a client of its own."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from barnabas.model.errors import Code
from tests.waiting import WAIT_S, until

# The first group of all has a topic made for it, whose leaders are not there at once.
COMING = (
    Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR
)  # fmt: skip
HEADERS: list[tuple[str, str | bytes | None]] = [("origin", b"test"), ("empty", None)]


def create(servers: str, topic: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)
    _wait_known(admin, topic, partitions)


def grow(servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT_S)
    _wait_known(admin, topic, partitions)


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(WAIT_S)
    _wait_known(admin, topic, 0)


def _wait_known(admin: AdminClient, topic: str, partitions: int) -> None:
    """Kafka's brokers learn of it a little later than its controller."""

    def known() -> int:
        found = admin.list_topics(timeout=WAIT_S).topics.get(topic)
        return len(found.partitions) if found is not None else 0

    until(lambda: known() == partitions, known)


def cut(servers: str, topic: str, partition: int, before: int) -> None:
    """Delete the records of a partition below an offset."""
    admin = AdminClient({"bootstrap.servers": servers})
    at = TopicPartition(topic, partition, before)
    for done in admin.delete_records([at]).values():
        done.result(WAIT_S)


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
    assert producer.flush(WAIT_S) == 0


def committed(servers: str, group: str, topic: str, partitions: int = 3) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [TopicPartition(topic, number) for number in range(partitions)]
    found: list[TopicPartition] = []

    def told() -> bool:
        try:
            found[:] = consumer.committed(places, timeout=WAIT_S)
        except KafkaException as problem:
            if problem.args[0].code() not in COMING:
                raise
            return False
        return True

    try:
        until(told, "there is no coordinator")
    finally:
        consumer.close()
    return [at.offset for at in found]
