"""A suite as users of kafka-python write it, on the fixture."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from barnabas.testing import Kafka
from tests.waiting import WAIT_S

python: Any = pytest.importorskip("kafka")

PATIENT = {"bootstrap_timeout_ms": round(WAIT_S * 1000)}


@pytest.fixture
def orders(kafka: Kafka) -> Kafka:
    """A broker with a topic of two partitions."""
    kafka.create_topic("orders", 2)
    return kafka


@contextmanager
def producer(kafka: Kafka, **more: Any) -> Iterator[Any]:
    found = python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **PATIENT, **more)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def consumer(kafka: Kafka, group: str | None = "billing", **more: Any) -> Iterator[Any]:
    found = python.KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=round(WAIT_S * 1000),
        **PATIENT,
        **more,
    )
    try:
        yield found
    finally:
        found.close()


def send(kafka: Kafka, first: int, last: int) -> None:
    with producer(kafka) as sends:
        for number in range(first, last):
            sends.send("orders", b"%d" % number, key=b"k%d" % number)
        sends.flush(10)


def take(reads: Any, count: int) -> list[int]:
    return sorted(int(next(reads).value) for _ in range(count))


def test_a_consumer_reads_what_a_producer_wrote(orders: Kafka) -> None:
    with producer(orders) as sends:
        sends.send("orders", b"1").get(WAIT_S)
    with consumer(orders) as reads:
        assert next(reads).value == b"1"
        reads.commit()
        orders.wait_for_lag("billing")


def test_headers_key_and_time_arrive_as_they_were_sent(orders: Kafka) -> None:
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b"")]
    with producer(orders) as sends:
        done = sends.send(
            "orders", b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_000, headers=headers
        ).get(WAIT_S)
    assert (done.partition, done.offset) == (1, 0)
    with consumer(orders) as reads:
        found = next(reads)
    assert [tuple(each) for each in found.headers] == headers
    assert (found.key, found.partition, found.timestamp) == (b"k", 1, 1_700_000_000_000)


def test_a_group_continues_at_what_it_has_committed(orders: Kafka) -> None:
    send(orders, 0, 10)
    with consumer(orders, enable_auto_commit=False) as reads:
        assert take(reads, 10) == list(range(10))
        reads.commit()
        at = python.TopicPartition("orders", 0)
        assert reads.committed(at) == len(orders.records("orders", partition=0))
    send(orders, 10, 15)
    with consumer(orders, enable_auto_commit=False) as reads:
        assert take(reads, 5) == list(range(10, 15))  # which it does not commit
    with consumer(orders) as reads:
        assert take(reads, 5) == list(range(10, 15))


def test_two_groups_read_everything_each(orders: Kafka) -> None:
    send(orders, 0, 10)
    with consumer(orders, "billing") as one, consumer(orders, "audit") as other:
        assert take(one, 10) == take(other, 10) == list(range(10))


def test_a_second_member_takes_over_a_partition_and_gives_it_back(orders: Kafka) -> None:
    """A consumer polls in its own thread, as applications do."""
    with polled(orders) as first:
        orders.wait_until(lambda: len(first.partitions) == 2)
        with polled(orders) as second:
            orders.wait_until(lambda: len(first.partitions) == len(second.partitions) == 1)
            assert not first.partitions & second.partitions
        orders.wait_until(lambda: len(first.partitions) == 2)
        send(orders, 0, 10)
        orders.wait_until(lambda: sorted(first.values + second.values) == list(range(10)))
    assert len(orders.rebalance_history("billing")) >= 3  # joined, joined, left


class Polling:
    """A consumer that a thread polls."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()
        self.values: list[int] = []


@contextmanager
def polled(kafka: Kafka) -> Iterator[Polling]:
    stop, found = Event(), Polling()

    def poll() -> None:
        with consumer(kafka, heartbeat_interval_ms=200) as reads:
            while not stop.is_set():
                for records in reads.poll(timeout_ms=50).values():
                    found.values += [int(each.value) for each in records]
                found.partitions = {at.partition for at in reads.assignment()}

    thread = Thread(target=poll)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def test_a_position_is_set_by_offset_and_by_time(orders: Kafka) -> None:
    with producer(orders) as sends:
        for number in range(5):
            sends.send(
                "orders", b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + number
            ).get(WAIT_S)
    at = python.TopicPartition("orders", 0)
    reads = python.KafkaConsumer(
        bootstrap_servers=orders.bootstrap_servers,
        consumer_timeout_ms=round(WAIT_S * 1000),
        **PATIENT,
    )
    reads.assign([at])
    reads.seek(at, 3)
    assert next(reads).value == b"3"
    assert reads.offsets_for_times({at: 1_700_000_000_002})[at].offset == 2
    assert reads.end_offsets([at]) == {at: 5}
    reads.close()


def test_topics_are_created_and_deleted(orders: Kafka) -> None:
    admin = python.KafkaAdminClient(bootstrap_servers=orders.bootstrap_servers, **PATIENT)
    admin.create_topics([python.admin.NewTopic("paid", 3, 1)])
    assert orders.topics() == ["orders", "paid"]
    admin.delete_topics(["paid"])
    assert orders.topics() == ["orders"]
    admin.close()
