"""What a consumer does where its user's code fails, or its partitions went to another."""

import asyncio
import gc
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import Fenced
from tests.client_e2e.conftest import OPTIONS, Served
from tests.client_e2e.test_consumer import PROTOCOLS, member, nobody_is_in, until
from tests.client_e2e.test_partition_consumer import filled, reader_on, take, values
from tests.process import BrokerProcess, children, running_broker
from tests.waiting import WAIT_S

LONG_MS = int(WAIT_S * 2 * 1000)
"""A call that waited for the broker would take longer than a test waits."""


class Interceptor:
    """Lets pass what `keeps` says."""

    def on_consume(self, messages: list[Any]) -> list[Any]:
        return [message for message in messages if self.keeps(message)]

    def keeps(self, message: Any) -> bool:
        return True

    def on_commit(self, offsets: Any) -> None:
        pass


class FailsOnce(Interceptor):
    failed = False

    def keeps(self, message: Any) -> bool:
        if message.offset == 4 and not self.failed:
            self.failed = True
            raise ZeroDivisionError
        return True


class LeavesOutTheFirst(Interceptor):
    def keeps(self, message: Any) -> bool:
        return bool(message.offset >= 7)


async def test_a_batch_at_which_an_interceptor_failed_comes_again(
    served: Served, topic: str, group: str
) -> None:
    await filled(served, topic, {0: 10})
    options: dict[str, Any] = {"max_poll_records": 3, "value_deserializer": int}
    async with member(served, topic, group, interceptors=[FailsOnce()], **options) as consumer:
        found = await take(consumer, 3)
        with pytest.raises(ZeroDivisionError):
            await consumer.getmany()
        await consumer.commit()
        assert (await consumer.committed())[topic, 0].offset == 3
        found += await take(consumer, 7)
    assert [message.value for message in found] == list(range(10))


async def test_an_interceptor_may_leave_out_whole_batches(served: Served, topic: str) -> None:
    await filled(served, topic, {0: 10})
    options: dict[str, Any] = {"max_poll_records": 3, "interceptors": [LeavesOutTheFirst()]}
    async with reader_on(served, (topic, 0), **options) as consumer:
        consumer.stop_at({(topic, 0): 10})
        assert values([message async for message in consumer]) == [7, 8, 9]
        with pytest.raises(TimeoutError, match="every partition has reached its stop offset"):
            await consumer.getone()
        consumer.stop_at({(topic, 0): 5})
        await consumer.seek((topic, 0), 0)
        assert await consumer.getmany() == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_commit_for_a_partition_that_went_to_another_is_refused(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    await filled(served, topic, {0: 5, 1: 5})
    options: dict[str, Any] = {"enable_auto_commit": False, "group_protocol": protocol}
    first = member(served, topic, group, **options)
    messages = await take(first, 10)
    second = member(served, topic, group, **options)
    await until([first, second], [1, 1])
    lost = second.assignment()[0].partition
    for message in messages:
        if message.partition == lost:
            with pytest.raises(Fenced, match=f"{topic}-{lost} is not assigned to this consumer"):
                await first.commit(message)
            with pytest.raises(Fenced):
                await first.commit_nowait({(topic, lost): 1})
        else:
            await first.commit(message)
    assert await second.committed() == {}
    await first.close()
    await second.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_callback_that_fails_does_not_keep_a_member_in_its_group(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    def revoked(*_: Any) -> None:
        raise ZeroDivisionError

    await filled(served, topic, {0: 5})
    consumer = barnabas.Consumer(
        topic,
        bootstrap_servers=served.bootstrap_servers,
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        on_revoked=revoked,
    )
    await take(consumer, 5)
    with pytest.raises(ZeroDivisionError):
        await consumer.close()
    await asyncio.wait_for(nobody_is_in(served, group), WAIT_S)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_leave_group_is_sent_again_when_the_broker_is_back(
    tmp_path: Path, protocol: str
) -> None:
    with running_broker(tmp_path, OPTIONS) as broker:
        await filled(broker, "t", {0: 5})
        options: dict[str, Any] = {"group_protocol": protocol, "enable_auto_commit": False}
        consumer = member(broker, "t", "g", **options)
        await take(consumer, 5)
        broker.kill()
        closing = asyncio.create_task(consumer.close())
        await asyncio.to_thread(broker.start)
        await asyncio.wait_for(closing, WAIT_S)
        await asyncio.wait_for(nobody_is_in(broker, "g"), WAIT_S)


def stalled(broker: BrokerProcess, is_stalled: bool) -> None:
    for pid in (broker.pid, *children(broker.pid)):  # of several, and who watches over them
        os.kill(pid, signal.SIGSTOP if is_stalled else signal.SIGCONT)


STALLS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "metadata_max_age_ms": 100,
    "auto_commit_interval_ms": 50,
    "max_poll_records": 2,
    "request_timeout_ms": LONG_MS,
    "default_api_timeout_ms": LONG_MS,
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_broker_that_stalls_keeps_nobody_longer_than_asked(
    tmp_path: Path, protocol: str
) -> None:
    with running_broker(tmp_path, OPTIONS) as broker:
        await filled(broker, "t", {0: 10})
        consumer = member(broker, "t", "g", group_protocol=protocol, **STALLS)
        found = await take(consumer, 2)
        stalled(broker, True)
        try:
            for _ in range(7):  # four give what was fetched before
                found += await asyncio.wait_for(consumer.getmany(timeout=0.2), WAIT_S)
            other = member(broker, "t", "other", group_protocol=protocol, **STALLS)
            assert await asyncio.wait_for(other.getmany(timeout=0.2), WAIT_S) == []
        finally:
            stalled(broker, False)
        found += await take(consumer, 10 - len(found))
        assert values(found) == list(range(10))
        assert values(await take(other, 10)) == list(range(10))
        await consumer.close()
        await other.close()


def test_a_broker_that_stalls_keeps_no_thread_longer_than_asked(tmp_path: Path) -> None:
    with running_broker(tmp_path, OPTIONS) as broker:
        asyncio.run(filled(broker, "t", {0: 10}))
        options = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g", **STALLS}
        with barnabas.sync.Consumer("t", **options) as consumer:
            found = [consumer.getone(), consumer.getone()]
            stalled(broker, True)
            try:
                for _ in range(7):  # four give what was fetched before
                    begun = time.monotonic()
                    found += consumer.getmany(timeout=0.2)
                    assert time.monotonic() - begun < WAIT_S
            finally:
                stalled(broker, False)
            while len(found) < 10:
                found += consumer.getmany(timeout=WAIT_S)
        assert values(found) == list(range(10))


def held() -> set[str]:
    """Sockets and threads of this process."""
    threads = {one.name for one in threading.enumerate() if one.name.startswith("barnabas")}
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists them
            threads.add(os.readlink(f"/proc/self/fd/{name}"))
    return {one for one in threads if one.startswith(("barnabas", "socket:"))}


async def test_what_is_forgotten_lets_go(served: Served, topic: str, group: str) -> None:
    async def awaited() -> None:
        await barnabas.Admin(bootstrap_servers=served.bootstrap_servers).topics()
        await take(reader_on(served, (topic, 0)), 5)
        await take(member(served, topic, group), 5)

    def blocked() -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest"}
        options["bootstrap_servers"] = served.bootstrap_servers
        barnabas.sync.Admin(bootstrap_servers=served.bootstrap_servers).topics()
        barnabas.sync.PartitionConsumer([(topic, 0)], **options).getone()
        barnabas.sync.Consumer(topic, group_id=f"{group}-blocked", **options).getone(timeout=WAIT_S)
        assert "barnabas-heartbeat" in held()

    async def gone() -> None:
        while gc.collect() or held() - before:
            await asyncio.sleep(0.01)

    await filled(served, topic, {0: 5})
    gc.collect()
    before = held()
    await awaited()
    assert held() - before
    await asyncio.wait_for(gone(), WAIT_S)
    blocked()
    await asyncio.wait_for(gone(), WAIT_S)
