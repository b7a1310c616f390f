"""Topics whose records are delivered some time after they were written."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

import barnabas
from barnabas.model.errors import InvalidRequest
from tests.process import BrokerProcess, running_broker
from tests.waiting import WAIT_S

DELAY_MS = 700
LONG_MS = int(WAIT_S * 2 * 1000)
"""A reader that is not woken waits longer than a test does."""
ATTEMPTS = 3
OPTIONS = {
    "barnabas.delivery.delay.ms": str(DELAY_MS),
    "message.timestamp.type": "LogAppendTime",
}

PATIENT: dict[str, Any] = {"fetch_max_wait_ms": LONG_MS, "request_timeout_ms": LONG_MS + 60_000}


@pytest.fixture
async def broker(tmp_path: Any) -> AsyncIterator[BrokerProcess]:
    with running_broker(tmp_path / "broker", {"group.initial.rebalance.delay.ms": "0"}) as running:
        async with barnabas.Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            await admin.create_topic("later", configs=OPTIONS)
        yield running


def reader(broker: BrokerProcess, topic: str = "later", **options: Any) -> Any:
    options = {"auto_offset_reset": "earliest", **options}
    servers = broker.bootstrap_servers
    return barnabas.PartitionConsumer([(topic, 0)], bootstrap_servers=servers, **options)


async def write(broker: BrokerProcess, *values: str) -> None:
    async with barnabas.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            await producer.send("later", value)


def late_ms(message: Any) -> float:
    return float(time.time() * 1000 - message.timestamp - DELAY_MS)


async def test_a_waiting_reader_gets_a_record_when_its_delay_has_passed(
    broker: BrokerProcess,
) -> None:
    async with reader(broker, **PATIENT) as consumer:
        waiting = asyncio.ensure_future(consumer.getone(timeout=WAIT_S))
        await write(broker, "a")
        message = await waiting
        assert message.value == b"a"
        assert late_ms(message) >= 0


async def test_the_end_that_readers_are_told_is_that_of_the_visible_records(
    broker: BrokerProcess,
) -> None:
    at = barnabas.TopicPartition("later", 0)
    async with barnabas.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.alter_topic("later", put={"barnabas.delivery.delay.ms": "3600000"})
        await write(broker, "a", "b")
        assert (await admin.offsets({at: -1}))[at].offset == 0
        await admin.alter_topic("later", put={"barnabas.delivery.delay.ms": str(DELAY_MS)})
    async with reader(broker) as consumer:
        found = [await consumer.getone(timeout=WAIT_S), await consumer.getone(timeout=WAIT_S)]
        assert [message.value for message in found] == [b"a", b"b"]
        assert all(late_ms(message) >= 0 for message in found)
        assert (await consumer.end_offsets())[at] == 2
        assert consumer.lag()[at] == 0


async def test_records_stay_hidden_through_a_kill_and_come_in_time(broker: BrokerProcess) -> None:
    await write(broker, "a", "b", "c")
    broker.kill()
    broker.start()
    async with reader(broker) as consumer:
        found = [await consumer.getone(timeout=WAIT_S) for _ in range(3)]
    assert [message.value for message in found] == [b"a", b"b", b"c"]
    assert all(late_ms(message) >= 0 for message in found)


async def test_a_changed_delay_holds_for_waiting_readers(broker: BrokerProcess) -> None:
    servers = broker.bootstrap_servers
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.alter_topic("later", put={"barnabas.delivery.delay.ms": "3600000"})
        async with reader(broker, **PATIENT) as consumer:
            await write(broker, "a")
            assert await consumer.getmany(timeout=0.2) == []
            await admin.alter_topic("later", reset=["barnabas.delivery.delay.ms"])
            assert (await consumer.getone(timeout=WAIT_S)).value == b"a"


async def test_a_reader_of_committed_records_is_woken_by_the_end_of_a_transaction(
    broker: BrokerProcess,
) -> None:
    """The record is due; the marker that ends its transaction is not."""
    for number in range(ATTEMPTS):  # a starved reader may be late; one that is not woken always is
        if await is_woken_before_the_marker_is_due(broker, f"woken-{number}"):
            return
    raise AssertionError("the reader got the record when the marker was due")


async def is_woken_before_the_marker_is_due(broker: BrokerProcess, topic: str) -> bool:
    servers, delay_s = broker.bootstrap_servers, 6
    async with (
        barnabas.Admin(bootstrap_servers=servers) as admin,
        barnabas.Producer(bootstrap_servers=servers, transactional_id=topic) as producer,
    ):
        put = {"barnabas.delivery.delay.ms": str(1000 * delay_s)}
        await admin.create_topic(topic, configs={**OPTIONS, **put})
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, "a")
        async with reader(broker, topic, isolation_level="read_uncommitted") as consumer:
            await consumer.getone(timeout=WAIT_S)
        async with reader(broker, topic, **PATIENT) as consumer:
            assert await consumer.getmany(timeout=0.2) == []
            began = time.monotonic()
            await producer.commit_transaction()
            assert (await consumer.getone(timeout=WAIT_S)).value == b"a"
            return time.monotonic() - began < delay_s


async def test_a_share_group_gets_a_record_when_its_delay_has_passed(
    broker: BrokerProcess,
) -> None:
    servers = broker.bootstrap_servers
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.alter_group("sharing", put={"share.auto.offset.reset": "earliest"})
    async with barnabas.ShareConsumer(
        "later", group_id="sharing", bootstrap_servers=servers, **PATIENT
    ) as consumer:
        waiting = asyncio.ensure_future(consumer.poll(timeout=WAIT_S))
        await write(broker, "a")
        (message,) = await waiting
        assert message.value == b"a"
        assert late_ms(message) >= 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"message.timestamp.type": "CreateTime"}, "requires message.timestamp.type"),
        ({"cleanup.policy": "compact"}, "cannot be used with cleanup.policy"),
        ({"retention.ms": "700"}, "is not below retention.ms"),
        ({"barnabas.delivery.delay.ms": "-1"}, "barnabas.delivery.delay.ms"),
    ],
)
async def test_a_delay_that_cannot_be_kept_is_refused(
    broker: BrokerProcess, options: dict[str, str], said: str
) -> None:
    async with barnabas.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        with pytest.raises(InvalidRequest, match=said):
            await admin.create_topic("other", configs={**OPTIONS, **options})
