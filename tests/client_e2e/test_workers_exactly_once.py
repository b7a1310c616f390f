"""Workers that write their results exactly once."""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas import HandlerFailed, ProducerRecord, Reject, Retry, parallel
from barnabas.client.consumer.message import RawMessage
from barnabas.client.workers.dead_letter_headers import trail_in
from barnabas.client.workers.parallel import Parallel
from barnabas.model.errors import Fenced, InvalidRequest
from tests.client_e2e.conftest import OwnBroker, Served
from tests.client_e2e.exactly_once_program import COPIES
from tests.client_e2e.test_workers import committed, fill
from tests.client_e2e.test_workers_killed import (
    Workers,
    letters_in,
    wait_until_read,
)
from tests.waiting import WAIT_S, until

PARTITIONS = 3
RECORDS = 1_500
BAD = 30
KILLS = 3


def created(servers: str, topic: str, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=PARTITIONS, configs=named)


def written(servers: str, topic: str) -> list[RawMessage]:
    """All committed records."""
    with barnabas.sync.PartitionConsumer(
        [(topic, number) for number in range(PARTITIONS)],
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.stop_at(consumer.end_offsets())
        return list(consumer)


def values(messages: list[RawMessage]) -> list[bytes]:
    return sorted(message.value or b"" for message in messages)


class Working:
    """A worker that runs as a task of the test."""

    def __init__(self, worker: Parallel[Any, Any, Any], servers: str, **options: Any) -> None:
        self._worker = worker
        self._run = asyncio.create_task(worker.serve(bootstrap_servers=servers, **options))

    async def until(self, condition: Callable[[], bool]) -> None:
        while not await asyncio.to_thread(condition):
            if self._run.done():
                self._run.result()
                raise AssertionError("the worker has ended")
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._worker.stop()
        await self._run

    async def failure(self) -> BaseException:
        with pytest.raises(BaseException) as caught:  # noqa: PT011
            await asyncio.wait_for(self._run, WAIT_S)
        return caught.value


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
@pytest.mark.parametrize("how", ["awaiting", "blocking"])
async def test_records_that_a_handler_returns_are_written(
    served: Served, topic: str, group: str, how: str, exactly_once: bool
) -> None:
    servers = served.bootstrap_servers
    target = f"{topic}-doubled"
    await asyncio.to_thread(fill, servers, topic, 200)
    await asyncio.to_thread(created, servers, target)

    def doubled(message: RawMessage) -> list[ProducerRecord] | ProducerRecord | None:
        value = int(message.value or b"")
        if value % 10 == 0:
            return None
        if value % 10 == 1:
            return ProducerRecord(target, 2 * value, key=message.key)
        return [ProducerRecord(target, 2 * value, message.key, {"n": "1"}, timestamp=5)]

    async def awaiting(message: RawMessage) -> object:
        await asyncio.sleep(0.001)
        return doubled(message)

    decorated = parallel(
        topic,
        group_id=group,
        exactly_once=exactly_once,
        commit_interval=0.05,
        value_serializer=lambda number: b"%d" % number,
    )
    worker: Any = decorated(awaiting if how == "awaiting" else doubled)
    working = Working(worker, servers)
    await working.until(lambda: sum(committed(servers, group, topic).values()) == 200)
    await working.stop()
    found = await asyncio.to_thread(written, servers, target)
    wanted = [b"%d" % (2 * number) for number in range(200) if number % 10]
    assert values(found) == sorted(wanted)
    of_lists = [message for message in found if message.headers]
    assert len(of_lists) == 160
    assert {(message.headers, message.timestamp) for message in of_lists} == {((("n", b"1"),), 5)}


async def test_retries_and_dead_letters_are_in_the_transaction(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 30)
    await asyncio.to_thread(created, servers, f"{topic}-out", max_message_bytes="2000")
    seen: Counter[bytes] = Counter()

    @parallel(
        topic,
        group_id=group,
        exactly_once=True,
        retry=Retry(0, rounds=1, delay=(0.1, 0.1)),
        retry_topic=f"{topic}.retry",
        dlq=f"{topic}.dlq",
    )
    async def handle(message: RawMessage) -> ProducerRecord:
        value = message.value or b""
        seen[value] += 1
        if value == b"3" and message.topic == topic:
            raise ConnectionError("for now")
        if value == b"4":
            raise ValueError("for good")
        if value == b"5":
            raise Reject("never")
        if value == b"6":
            return ProducerRecord(f"{topic}-out", b"x" * 5_000)  # more than the topic accepts
        if value == b"7":
            return ProducerRecord(f"{topic}-out", b"x" * 2_000_000)  # than a request may have
        if value == b"8":
            return ProducerRecord(f"{topic}-out", value, partition=99)
        if value == b"9":
            return "text"  # type: ignore[return-value]
        return ProducerRecord(f"{topic}-out", value)

    working = Working(handle, servers)
    await working.until(lambda: sum(committed(servers, group, topic).values()) == 30)
    await wait_until_read(servers, group, [f"{topic}.retry"])
    await working.stop()
    good = [b"%d" % number for number in range(30) if not 4 <= number <= 9]
    assert values(await asyncio.to_thread(written, servers, f"{topic}-out")) == sorted(good)
    letters = await letters_in(servers, f"{topic}.dlq")
    causes = {(message.value or b"").decode(): trail for message, trail in letters}
    assert len(letters) == len(causes) == 6
    assert causes["4"].cause == "ValueError: for good"
    assert (causes["4"].attempts, causes["4"].round) == (2, 1)
    assert causes["5"].cause == "Reject: never"
    assert "max.message.bytes" in causes["6"].cause
    assert "abort" not in causes["6"].cause
    assert "max.request.size" in causes["7"].cause
    assert "has no partition 99" in causes["8"].cause
    assert "a handler returns a ProducerRecord" in causes["9"].cause
    # The results of a call are kept: a transaction that is aborted calls no handler again.
    assert seen[b"6"] == seen[b"7"] == 1
    assert seen[b"0"] == 1


async def test_a_result_for_a_topic_that_does_not_exist_fails_its_record_alone(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 10)

    @parallel(topic, group_id=group, exactly_once=True, retry=Retry(0), dlq=f"{topic}.dlq")
    async def handle(message: RawMessage) -> ProducerRecord | None:
        return ProducerRecord("no/name", b"x") if message.value == b"3" else None

    working = Working(handle, servers)
    await working.until(lambda: sum(committed(servers, group, topic).values()) == 10)
    await working.stop()
    ((message, trail),) = await letters_in(servers, f"{topic}.dlq")
    assert message.value == b"3"
    assert "no/name" in trail.cause


async def test_without_a_dead_letter_topic_the_worker_stops(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 10, partitions=1)
    await asyncio.to_thread(created, servers, f"{topic}-out")

    @parallel(topic, group_id=group, exactly_once=True, retry=Retry(0))
    async def handle(message: RawMessage) -> ProducerRecord:
        if message.value == b"4":
            raise ValueError("bad")
        return ProducerRecord(f"{topic}-out", message.value)

    failure = await Working(handle, servers).failure()
    assert isinstance(failure, HandlerFailed)
    assert failure.offset == 4
    # What was handled is written: the next worker calls its function for the others only.
    left: list[bytes | None] = []

    @parallel(topic, group_id=group, exactly_once=True)
    async def repaired(message: RawMessage) -> ProducerRecord:
        left.append(message.value)
        return ProducerRecord(f"{topic}-out", message.value)

    working = Working(repaired, servers)
    await working.until(lambda: committed(servers, group, topic, 1) == {0: 10})
    await working.stop()
    assert b"4" in left
    assert not {b"0", b"1", b"2", b"3"} & set(left)
    everything = [b"%d" % number for number in range(10)]
    assert values(await asyncio.to_thread(written, servers, f"{topic}-out")) == everything


async def test_a_worker_that_is_fenced_stops_with_an_error_that_says_so(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 10, partitions=1)
    await asyncio.to_thread(created, servers, f"{topic}-out")
    go = asyncio.Event()

    @parallel(topic, group_id=group, exactly_once=True, transactional_id=topic)
    async def handle(message: RawMessage) -> ProducerRecord:
        if message.value == b"5":
            await go.wait()
        return ProducerRecord(f"{topic}-out", message.value)

    working = Working(handle, servers)
    await working.until(lambda: len(written(servers, f"{topic}-out")) == 9)
    async with barnabas.Producer(bootstrap_servers=servers, transactional_id=topic) as other:
        await other.init_transactions()
        go.set()
        failure = await working.failure()
    assert isinstance(failure, Fenced)
    assert f"transactional.id '{topic}': another producer has started" in failure.detail


async def test_a_partition_that_moves_in_the_middle_is_written_once(
    served: Served, topic: str, group: str
) -> None:
    """Workers come and go; each revocation ends with a transaction."""
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 600)
    await asyncio.to_thread(created, servers, f"{topic}-out")

    def worker() -> Parallel[Any, Any, Any]:
        @parallel(topic, group_id=group, exactly_once=True, concurrency=4, commit_interval=0.03)
        async def handle(message: RawMessage) -> ProducerRecord:
            await asyncio.sleep(0.004)
            return ProducerRecord(f"{topic}-out", message.value)

        return handle

    def at_least(count: int) -> bool:
        return len(written(servers, f"{topic}-out")) >= count

    first = Working(worker(), servers)
    await first.until(partial(at_least, 50))
    second = Working(worker(), servers)
    await second.until(partial(at_least, 200))
    await first.stop()
    third = Working(worker(), servers)
    await third.until(partial(at_least, 350))
    await second.stop()
    await third.until(partial(at_least, 600))
    await third.stop()
    wanted = sorted(b"%d" % number for number in range(600))
    assert values(await asyncio.to_thread(written, servers, f"{topic}-out")) == wanted


async def test_a_worker_goes_on_from_one_that_was_at_least_once_and_back(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 90)
    await asyncio.to_thread(created, servers, f"{topic}-out")

    async def handle(message: RawMessage) -> ProducerRecord:
        await asyncio.sleep(0.002)
        return ProducerRecord(f"{topic}-out", message.value)

    for count, exactly_once in ((30, False), (60, True), (90, False)):
        decorate = parallel(topic, group_id=group, exactly_once=exactly_once, concurrency=2)
        working = Working(decorate(handle), servers)
        await working.until(lambda n=count: len(written(servers, f"{topic}-out")) >= n)  # type: ignore[misc]
        await working.stop()
    wanted = sorted(b"%d" % number for number in range(90))
    assert values(await asyncio.to_thread(written, servers, f"{topic}-out")) == wanted


def test_options_that_do_not_fit_are_refused(group: str) -> None:
    with pytest.raises(InvalidRequest, match=r"leave isolation\.level at read_committed"):
        parallel("t", group_id=group, exactly_once=True, isolation_level="read_uncommitted")
    with pytest.raises(InvalidRequest, match="needs exactly_once=True"):
        parallel("t", group_id=group, transactional_id="x")


# --- kills ---


def produced(servers: str, topic: str) -> tuple[set[str], set[str]]:
    """Good values, and those that end in the dead-letter topic."""
    good = {f"good-{number}" for number in range(RECORDS)}
    bad = {f"poison-{number}" for number in range(BAD - 10)}
    bad |= {f"reject-{number}" for number in range(5)} | {f"large-{number}" for number in range(5)}
    mixed = sorted(good | bad)
    random.Random(5).shuffle(mixed)
    with barnabas.sync.Producer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(mixed):
            producer.send_nowait(topic, value, key=f"key-{number % 50}")
    return good, bad


async def check_all(servers: str, topic: str, good: set[str], bad: set[str]) -> None:
    expected = {f"{value}#{copy}" for value in good for copy in range(COPIES)}
    counts: Counter[str] = Counter()

    def all_written() -> bool:
        """The end of a transaction is answered before its markers are in all partitions."""
        nonlocal counts
        out = written(servers, f"{topic}.out")
        counts = Counter((message.value or b"").decode() for message in out)
        return counts.keys() >= expected

    await asyncio.to_thread(until, all_written)
    doubled = [one for one in counts.items() if one[1] > 1]
    assert not doubled, f"{len(doubled)} are written twice: {doubled[:5]}"
    assert set(counts) == expected
    dead = await letters_in(servers, f"{topic}.dlq")
    assert sorted((message.value or b"").decode() for message, _ in dead) == sorted(bad)
    for message, trail in dead:
        assert trail_in(message.headers) == trail
        assert trail.origin.topic == topic


@pytest.mark.parametrize("ids", ["named", "unnamed"])
async def test_no_result_is_missing_or_doubled_when_workers_are_killed(
    served: Served, topic: str, group: str, tmp_path: Path, ids: str
) -> None:
    """Workers of asyncio and of blocking functions; some have the same id after a restart."""
    servers = served.bootstrap_servers
    for name, configs in ((topic, {}), (f"{topic}.out", {"max_message_bytes": "10000"})):
        await asyncio.to_thread(created, servers, name, **configs)
    good, bad = await asyncio.to_thread(produced, servers, topic)
    program = "tests.client_e2e.exactly_once_program"
    running = Workers([sys.executable, "-m", program, servers, group, topic], tmp_path / "log")
    chance = random.Random(11)
    names = ["first", "second"] if ids == "named" else []
    try:
        for number in range(2):
            running.start(*names[number : number + 1], *(("blocking",) if number else ()))
        for kill in range(1, KILLS + 1):
            wanted = kill * RECORDS * COPIES // (KILLS + 1)
            await asyncio.to_thread(
                until,
                lambda n=wanted: len(written(servers, f"{topic}.out")) >= n,  # type: ignore[misc]
                lambda: (tmp_path / "log").read_text()[-3000:],
            )
            victim = chance.randrange(2)
            running.kill(victim)
            running.start(*names[victim : victim + 1], *chance.choice(((), ("blocking",))))
            if victim == 0:  # the last to be started is the last in the list
                names.reverse()
        await wait_until_read(servers, group, [topic, f"{topic}.retry"])
        assert running.stop() == [0, 0]
    finally:
        running.kill_all()
    await check_all(servers, topic, good, bad)


async def test_no_result_is_missing_or_doubled_when_the_broker_is_killed(
    own_broker: OwnBroker, topic: str, group: str, tmp_path: Path
) -> None:
    servers = own_broker.bootstrap_servers
    for name, configs in ((topic, {}), (f"{topic}.out", {"max_message_bytes": "10000"})):
        await asyncio.to_thread(created, servers, name, **configs)
    good, bad = await asyncio.to_thread(produced, servers, topic)
    program = "tests.client_e2e.exactly_once_program"
    running = Workers([sys.executable, "-m", program, servers, group, topic], tmp_path / "log")
    try:
        running.start()
        await asyncio.to_thread(
            until, lambda: len(written(servers, f"{topic}.out")) >= RECORDS * COPIES // 4
        )
        own_broker.kill()
        await asyncio.to_thread(own_broker.start)
        await wait_until_read(servers, group, [topic, f"{topic}.retry"], running)
        assert running.stop() == [0]
    finally:
        running.kill_all()
    await check_all(servers, topic, good, bad)
