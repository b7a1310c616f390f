"""A group member that iterates: each message it asks for is a poll, against both brokers."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import barnabas
import barnabas.sync
from tests.client_e2e.conftest import Served
from tests.client_e2e.test_consumer import PROTOCOLS, Heard, member
from tests.client_e2e.test_partition_consumer import filled
from tests.waiting import WAIT_S

COUNT = 30  # records of each of two partitions: one batch, longer than the poll interval
WORK_S = 0.4
POLL_INTERVAL_MS = 8_000  # of a member that may starve for a while
START_S = POLL_INTERVAL_MS / 1000 / 4
SESSION_MS = 10_000  # less than a batch takes


class Handled:
    """What two members handled, and of which partitions they were the owners then."""

    def __init__(self) -> None:
        self.by: dict[str, list[tuple[int, int]]] = {"first": [], "second": []}
        self.second_may_start = threading.Event()

    def add(self, name: str, consumer: Any, message: Any) -> float:
        """How long the work on it takes."""
        assert (message.topic, message.partition) in consumer.assignment()
        self.by[name].append((message.partition, message.offset))
        if len(self.by["first"]) == 3:
            self.second_may_start.set()
        return self._work_s(name)

    def _work_s(self, name: str) -> float:
        """The first leaves some for the second, however slowly that one starts."""
        waits = name == "first" and len(self.by["first"]) >= 5 and not self.by["second"]
        return START_S if waits else WORK_S

    @property
    def count(self) -> int:
        return sum(map(len, self.by.values()))

    def check(self, heard: Heard) -> None:
        """All once; the second member had its share of a batch that the first had fetched."""
        everything = sorted(self.by["first"] + self.by["second"])
        assert everything == [(part, offset) for part in (0, 1) for offset in range(COUNT)]
        assert len(self.by["second"]) > COUNT // 6
        assert "slow" not in {cause.kind for _, _, cause in heard.log}
        assert "lost" not in {name for name, _, _ in heard.log}


def options(protocol: str, **more: Any) -> dict[str, Any]:
    return {
        "group_protocol": protocol,
        "max_poll_interval_ms": POLL_INTERVAL_MS,
        "auto_commit_interval_ms": 100,
        **more,
    }


async def by_iterating(consumer: Any, handle: Callable[[Any], float]) -> None:
    async for message in consumer:
        await asyncio.sleep(handle(message))  # the work


async def by_asking_for_one(consumer: Any, handle: Callable[[Any], float]) -> None:
    while True:
        await asyncio.sleep(handle(await consumer.getone()))  # the work


WAYS = (by_iterating, by_asking_for_one)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_slow_reader_of_a_large_batch_stays_a_member_and_shares_it(
    served: Served, topic: str, group: str, protocol: str, way: Any
) -> None:
    await filled(served, topic, {0: COUNT, 1: COUNT})
    handled, heard = Handled(), Heard()

    async def run(name: str) -> None:
        if name == "second":
            while not handled.second_may_start.is_set():
                await asyncio.sleep(0.01)
        async with member(served, topic, group, heard, **options(protocol)) as consumer:
            await way(consumer, lambda message: handled.add(name, consumer, message))

    async def all_are_handled() -> None:
        while handled.count < 2 * COUNT:
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        members = [tasks.create_task(run(name)) for name in ("first", "second")]
        await asyncio.wait_for(all_are_handled(), WAIT_S)
        for each in members:
            each.cancel()
    handled.check(heard)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_blocking_reader_of_a_large_batch_stays_a_member_and_shares_it(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    asyncio.run(filled(served, topic, {0: COUNT, 1: COUNT}))
    handled, heard = Handled(), Heard()
    problems: list[BaseException] = []

    def run(name: str) -> None:
        try:
            with barnabas.sync.Consumer(
                topic,
                bootstrap_servers=served.bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
                on_assigned=heard.assigned,
                on_revoked=heard.revoked,
                on_lost=heard.lost,
                **options(protocol),
            ) as consumer:
                while handled.count < 2 * COUNT:
                    try:
                        message = consumer.getone(timeout=0.1) if name == "second" else None
                    except TimeoutError:
                        continue
                    work_s = handled.add(name, consumer, message or next(consumer))
                    time.sleep(work_s)
        except BaseException as problem:
            problems.append(problem)

    first = threading.Thread(target=run, args=("first",))
    second = threading.Thread(target=run, args=("second",))
    first.start()
    assert handled.second_may_start.wait(WAIT_S)
    second.start()
    # The first one may wait for a message when the second has handled the last one.
    second.join(WAIT_S)
    with barnabas.sync.Producer(bootstrap_servers=served.bootstrap_servers) as producer:
        while first.is_alive():
            for partition in (0, 1):
                producer.send(topic, b"the end", partition=partition)
            first.join(0.1)
    assert problems == []
    handled.by["first"] = [one for one in handled.by["first"] if one[1] < COUNT]
    handled.check(heard)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_messages_are_committed_while_a_batch_is_iterated_over(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    await filled(served, topic, {0: 1000})
    async with member(served, topic, group, **options(protocol)) as consumer:
        async for message in consumer:
            found = (await consumer.committed()).get((topic, 0))
            if found is not None and found.offset > 0:
                assert found.offset <= message.offset
                break
            assert message.offset < 499, "the batch was handed out without a commit"
            await asyncio.sleep(0.002)  # the work


async def test_heartbeats_go_on_beside_a_reader_that_blocks_its_loop_between_messages(
    request: pytest.FixtureRequest, topic: str, group: str
) -> None:
    """For longer than its session would last without them, within one batch."""
    served: Served = request.getfixturevalue("_shared_barnabas")  # Kafka's sessions are longer
    await filled(served, topic, {0: 60})
    heard = Heard()
    async with member(served, topic, group, heard, session_timeout_ms=SESSION_MS) as consumer:
        async for message in consumer:
            time.sleep(WORK_S)  # the work of a reader that never awaits
            if message.offset == 59:
                break
        await consumer.commit()
        assert heard.kinds == ["assigned:joined"]


async def test_an_iteration_ends_when_its_consumer_is_closed(
    served: Served, topic: str, group: str
) -> None:
    await filled(served, topic, {0: 10})
    consumer = member(served, topic, group)
    await anext(consumer)
    await consumer.close()
    with pytest.raises(barnabas.InvalidRequest, match="the consumer is closed"):
        await anext(consumer)
