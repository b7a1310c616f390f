"""What a test asks of its broker."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.testing import AsyncKafka, Kafka


@contextmanager
def reading(kafka: Kafka, group: str, *names: str, **options: Any) -> Iterator[None]:
    """Consumers of a group, one thread each, until the end; a refused commit is not an error."""
    stop = threading.Event()

    def read(name: str) -> None:
        with barnabas.sync.Consumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            client_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms="50",
            auto_commit_interval_ms="20",
            **options,
        ) as consumer:
            while not stop.is_set():
                consumer.getmany(timeout=0.02)

    threads = [threading.Thread(target=read, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def is_stable(kafka: Kafka, group: str, members: int) -> bool:
    if group not in kafka.groups():
        return False
    found = kafka.group(group)
    return found.state == "Stable" and len(found.members) == members


def test_records_come_back_as_they_were_written(kafka: Kafka) -> None:
    kafka.create_topic("orders", 3, configs={"retention.ms": 60_000})
    kafka.produce("orders", [b"\x00", "text", {"id": 1}, None], key="k", headers={"h": "v"})
    records = kafka.records("orders")
    assert [record.value for record in records] == [b"\x00", b"text", b'{"id":1}', None]
    assert {(record.key, *record.headers) for record in records} == {(b"k", ("h", b"v"))}
    assert kafka.topics() == ["orders"]
    assert kafka.values("orders", partition=records[0].partition) == kafka.values("orders")


def test_a_topic_that_is_not_there_has_no_records(kafka: Kafka) -> None:
    assert kafka.values("orders.dlq") == []
    assert kafka.topics() == []


def test_each_test_has_a_broker_of_its_own(kafka: Kafka, kafka_session: Kafka) -> None:
    assert kafka.bootstrap_servers != kafka_session.bootstrap_servers
    assert kafka.topics() == []


def test_it_waits_for_a_group_and_tells_its_rebalances(kafka: Kafka) -> None:
    kafka.create_topic("orders", 2)
    kafka.produce("orders", [b"1", b"2"])
    with reading(kafka, "billing", "one", "two"):
        kafka.wait_for_lag("billing")
        kafka.wait_until(lambda: is_stable(kafka, "billing", 2))
        assert kafka.lag("billing") == 0
        assert any("joined" in cause for cause in kafka.rebalance_history("billing")[0].causes)


def test_a_group_that_is_behind_is_explained(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", [b"1", b"2"])
    with reading(kafka, "billing", "one"):
        kafka.wait_for_lag("billing")
    kafka.produce("orders", [b"3"])
    with pytest.raises(AssertionError, match=r"(?s)lag 1, not 0.*no-members.*remedy"):
        kafka.wait_for_lag("billing", timeout=0.01)
    with pytest.raises(AssertionError, match="there is no group 'other'"):
        kafka.wait_for_lag("other", timeout=0.01)


OFTEN = dict.fromkeys(
    ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"), "200"
)


@pytest.mark.kafka(settings=OFTEN)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_expires_and_comes_back(kafka: Kafka, protocol: str) -> None:
    kafka.create_topic("orders", 2)
    with reading(kafka, "billing", "one", "two", group_protocol=protocol):
        kafka.wait_until(lambda: is_stable(kafka, "billing", 2))
        kafka.expire("billing", member=0)
        kafka.wait_until(
            lambda: any(
                "LATE_HEARTBEAT" in each.kinds for each in kafka.rebalance_history("billing")
            ),
        )
        # A member of the consumer protocol learns it at its next heartbeat.
        kafka.wait_until(lambda: is_stable(kafka, "billing", 2))


def test_a_rebalance_on_request(kafka: Kafka) -> None:
    kafka.create_topic("orders", 2)
    with reading(kafka, "billing", "one", group_protocol="classic"):
        kafka.wait_until(lambda: is_stable(kafka, "billing", 1))
        kafka.rebalance("billing")
        kafka.wait_until(
            lambda: any(each.kinds == ("REQUESTED",) for each in kafka.rebalance_history("billing"))
        )
    with pytest.raises(ValueError, match="there is no group 'nobody'"):
        kafka.rebalance("nobody")


async def test_the_same_for_asyncio() -> None:
    async with AsyncKafka() as kafka:
        await kafka.create_topic("orders")
        await kafka.produce("orders", [b"1"])

        async def application() -> None:
            async with barnabas.Consumer(
                "orders",
                bootstrap_servers=kafka.bootstrap_servers,
                group_id="billing",
                auto_offset_reset="earliest",
            ) as consumer:
                async for message in consumer:
                    await consumer.commit(message)

        running = asyncio.create_task(application())
        await kafka.wait_for_lag("billing")
        running.cancel()
        assert await kafka.values("orders") == [b"1"]


def test_an_error_inside_carries_the_report() -> None:
    def failing() -> None:
        with Kafka() as kafka:
            kafka.create_topic("orders")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        failing()
    assert "topic 'orders': 0: 0 to 0" in "".join(caught.value.__notes__)


def test_what_a_test_may_not_ask_is_said() -> None:
    with pytest.raises(ValueError, match="brokers=0"):
        Kafka(brokers=0)
    with pytest.raises(ValueError, match="running"):
        Kafka(clock="slow")
    with pytest.raises(ValueError, match="machine's clock"):
        Kafka(process=True, clock="manual")
