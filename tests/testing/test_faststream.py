"""A suite as users of FastStream write it, on the fixture: a service with subscribers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from barnabas.testing import AsyncKafka

faststream: Any = pytest.importorskip("faststream.confluent")

EARLY = {"group_id": "billing", "auto_offset_reset": "earliest"}


@pytest.fixture
async def orders() -> AsyncIterator[AsyncKafka]:
    """A broker with the topics of a service."""
    async with AsyncKafka() as kafka:
        await kafka.create_topic("orders", 2)
        await kafka.create_topic("paid")
        yield kafka


async def test_a_subscriber_answers_into_another_topic(orders: AsyncKafka) -> None:
    broker = faststream.KafkaBroker(orders.bootstrap_servers)

    @broker.subscriber("orders", **EARLY)  # type: ignore[untyped-decorator]
    @broker.publisher("paid")  # type: ignore[untyped-decorator]
    async def handle(order: dict[str, int]) -> dict[str, int]:
        return {"paid": order["id"]}

    async with broker:
        await broker.start()
        await broker.publish({"id": 1}, "orders")
        (record,) = await orders.wait_for_records("paid", 1)
    assert json.loads(record.value or b"") == {"paid": 1}


async def test_headers_and_keys_reach_the_subscriber(orders: AsyncKafka) -> None:
    broker = faststream.KafkaBroker(orders.bootstrap_servers)
    found: list[tuple[Any, Any, Any]] = []

    @broker.subscriber("orders", **EARLY)  # type: ignore[untyped-decorator]
    async def handle(order: str, message: faststream.KafkaMessage) -> None:
        found.append((order, message.headers["trace"], message.raw_message.key()))

    async with broker:
        await broker.start()
        await broker.publish("1", "orders", key=b"k", headers={"trace": "abc"})
        await orders.wait_until(lambda: len(found) == 1)
    assert found == [("1", "abc", b"k")]


async def test_a_service_continues_at_what_it_has_committed(orders: AsyncKafka) -> None:
    found: list[int] = []
    for run in range(2):
        broker = faststream.KafkaBroker(orders.bootstrap_servers)

        @broker.subscriber("orders", **EARLY)  # type: ignore[untyped-decorator]
        async def handle(order: int) -> None:
            found.append(order)

        async with broker:
            await broker.start()
            for number in range(5):
                await broker.publish(run * 5 + number, "orders")
            await orders.wait_until(lambda: len(set(found)) >= (run + 1) * 5)  # noqa: B023
            await orders.wait_for_lag("billing")
    assert sorted(found) == list(range(10))


async def test_two_groups_of_one_service_read_everything_each(orders: AsyncKafka) -> None:
    broker = faststream.KafkaBroker(orders.bootstrap_servers)
    billed: list[int] = []
    audited: list[int] = []

    @broker.subscriber("orders", **EARLY)  # type: ignore[untyped-decorator]
    async def bill(order: int) -> None:
        billed.append(order)

    @broker.subscriber("orders", **{**EARLY, "group_id": "audit"})  # type: ignore[untyped-decorator]
    async def audit(order: int) -> None:
        audited.append(order)

    async with broker:
        await broker.start()
        for number in range(5):
            await broker.publish(number, "orders")
        await orders.wait_until(lambda: len(billed) == len(audited) == 5)
    assert sorted(billed) == sorted(audited) == list(range(5))


async def test_two_instances_of_a_service_share_the_partitions(orders: AsyncKafka) -> None:
    """The second one joins, which is a rebalance; then it ends, and the first one has all again."""
    found: dict[str, list[int]] = {"one": [], "other": []}

    def service(name: str) -> Any:
        broker = faststream.KafkaBroker(orders.bootstrap_servers)

        @broker.subscriber("orders", **EARLY)  # type: ignore[untyped-decorator]
        async def handle(order: int) -> None:
            found[name].append(order)

        return broker

    def shared() -> bool:
        if "billing" not in orders.sync.groups():
            return False
        members = orders.sync.group("billing").members
        return [len(each.owned) for each in members] == [1, 1]

    one, other = service("one"), service("other")
    async with one:
        await one.start()
        async with other:
            await other.start()
            await orders.wait_until(shared)
            for number in range(20):
                await one.publish(number, "orders", partition=number % 2)
            await orders.wait_until(lambda: sum(map(len, found.values())) == 20)
        assert [n % 2 for n in found["one"]].count(0) in (0, 10)
        for number in range(20, 30):
            await one.publish(number, "orders", partition=number % 2)
        await orders.wait_until(lambda: len(set(found["one"]) | set(found["other"])) == 30)
    assert len(found["one"]) == 20
    assert len(found["other"]) == 10
