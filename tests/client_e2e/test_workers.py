"""The four ways to use threads, on a broker."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

import barnabas
import barnabas.sync
from barnabas import HandlerFailed, Retry, parallel, per_batch, per_range, per_thread
from barnabas.client.consumer.message import RawMessage
from barnabas.client.workers.dead_letter_headers import trail_in
from barnabas.client.workers.parallel import Parallel
from barnabas.client.workers.threads import Worker
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import Served
from tests.client_e2e.test_workers_killed import letters_in, wait_until_read
from tests.waiting import WAIT_S, eventually, until

PARTITIONS = 3
POLL_INTERVAL_MS = 12_000  # of a worker that may starve for a while


def fill(servers: str, topic: str, count: int, *, partitions: int = PARTITIONS) -> None:
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=partitions)
    with barnabas.sync.Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, key=b"key-%d" % (number % 7))


def committed(servers: str, group: str, topic: str, partitions: int = PARTITIONS) -> dict[int, int]:
    with barnabas.sync.PartitionConsumer((), bootstrap_servers=servers, group_id=group) as reader:
        found = reader.committed(*(TopicPartition(topic, n) for n in range(partitions)))
    return {at.partition: place.offset for at, place in found.items()}


async def happens(condition: Callable[[], bool], *running: asyncio.Task[None]) -> None:
    """While these workers run: what ends one of them is raised."""
    await eventually(lambda: condition() or any(each.done() for each in running))
    for each in running:
        if each.done():
            each.result()
    assert condition(), "a worker has ended"


@contextmanager
def in_thread(worker: Worker[bytes | None, bytes | None], servers: str) -> Iterator[None]:
    """Runs until the block ends; what it raised is raised here."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            worker.run(bootstrap_servers=servers)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()
    if problems:
        raise problems[0]


class Seen:
    """What a handler saw, and whether records of a lane overlapped."""

    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = defaultdict(list)
        self.count = 0
        self.at_once = 0
        self.at_once_max = 0
        self.overlaps = 0
        self._running: set[tuple[int, bytes | None]] = set()
        self._last: dict[tuple[int, bytes | None], int] = {}
        self._turn = threading.Lock()

    def begin(self, message: RawMessage) -> None:
        lane = (message.partition, message.key)
        with self._turn:
            if lane in self._running or self._last.get(lane, -1) > message.offset:
                self.overlaps += 1
            self._running.add(lane)
            self._last[lane] = message.offset
            self.at_once += 1
            self.at_once_max = max(self.at_once_max, self.at_once)

    def end(self, message: RawMessage) -> None:
        with self._turn:
            self._running.discard((message.partition, message.key))
            self.at_once -= 1
            self.offsets[message.partition].append(message.offset)
            self.count += 1

    def all(self) -> list[tuple[int, int]]:
        return sorted((partition, one) for partition, all_ in self.offsets.items() for one in all_)


async def test_records_of_a_key_keep_their_order_while_others_overtake(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 300)
    seen = Seen()

    @parallel(topic, group_id=group, order="key", concurrency=16, commit_interval=0.05)
    async def handle(message: RawMessage) -> None:
        seen.begin(message)
        await asyncio.sleep(0.001 * (message.offset % 5))
        seen.end(message)

    running = asyncio.create_task(handle.serve(bootstrap_servers=servers))
    await happens(lambda: seen.count == 300, running)
    handle.stop()
    await running
    assert seen.overlaps == 0
    assert 2 <= seen.at_once_max <= 16
    assert any(offsets != sorted(offsets) for offsets in seen.offsets.values())
    assert len(set(seen.all())) == 300
    counts = {partition: len(offsets) for partition, offsets in seen.offsets.items()}
    assert await asyncio.to_thread(committed, servers, group, topic) == counts


async def test_a_stuck_record_holds_the_commit_and_nothing_else(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 200, partitions=1)
    seen: list[int] = []
    release = asyncio.Event()

    @parallel(topic, group_id=group, order="none", window=50, commit_interval=0.02)
    async def handle(message: RawMessage) -> None:
        if message.offset == 5:
            await release.wait()
        seen.append(message.offset)

    running = asyncio.create_task(handle.serve(bootstrap_servers=servers))
    try:
        await happens(lambda: len(seen) >= 49, running)
        where = await asyncio.to_thread(committed, servers, group, topic, 1)
        assert where.get(0, 0) <= 5
        release.set()
        await happens(lambda: len(seen) == 200, running)
    finally:
        handle.stop()
        await running
    assert await asyncio.to_thread(committed, servers, group, topic, 1) == {0: 200}


async def test_a_slow_handler_does_not_cost_the_membership(
    served: Served, topic: str, group: str
) -> None:
    """The first call takes longer than max.poll.interval.ms."""
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 2, partitions=1)
    calls: list[int] = []

    @parallel(topic, group_id=group, order="partition", max_poll_interval_ms=POLL_INTERVAL_MS)
    def handle(message: RawMessage) -> None:
        calls.append(message.offset)
        if message.offset == 0:
            time.sleep(POLL_INTERVAL_MS / 1000 + 1)

    running = asyncio.create_task(handle.serve(bootstrap_servers=servers))
    await happens(lambda: len(calls) == 2, running)
    handle.stop()
    await running
    assert calls == [0, 1]
    assert await asyncio.to_thread(committed, servers, group, topic, 1) == {0: 2}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_partitions_move_between_workers_and_no_record_is_handled_twice(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    """Without crashes: what runs is drained before its partition goes."""
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 600)
    seen = Seen()

    def worker() -> Parallel[bytes | None, bytes | None, Awaitable[None]]:
        @parallel(
            topic,
            group_id=group,
            concurrency=8,
            group_protocol=protocol,
            heartbeat_interval_ms=200,
        )
        async def handle(message: RawMessage) -> None:
            seen.begin(message)
            await asyncio.sleep(0.01)
            seen.end(message)

        return handle

    first, second = worker(), worker()
    runs = [asyncio.create_task(first.serve(bootstrap_servers=servers))]
    await happens(lambda: seen.count >= 60, runs[0])
    runs.append(asyncio.create_task(second.serve(bootstrap_servers=servers)))
    await happens(lambda: seen.count >= 350, runs[1])
    first.stop()
    await runs[0]
    await happens(lambda: seen.count >= 600, runs[1])
    second.stop()
    await runs[1]
    assert len(seen.all()) == len(set(seen.all())) == 600
    assert seen.overlaps == 0


async def test_a_value_that_nobody_can_read_is_a_dead_letter_with_its_bytes(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=1)
    with barnabas.sync.Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"seven")
        producer.send(topic, b"8")
        producer.send(topic, None, key=b"deleted")
    seen: list[int | None] = []

    @parallel(topic, group_id=group, value_deserializer=int, dlq=f"{topic}.dlq")
    async def handle(message: "barnabas.Message[bytes | None, int]") -> None:
        seen.append(message.value)

    running = asyncio.create_task(handle.serve(bootstrap_servers=servers))
    await happens(lambda: len(seen) == 2, running)
    handle.stop()
    await running
    assert set(seen) == {8, None}
    ((letter, trail),) = await letters_in(servers, f"{topic}.dlq")
    assert letter.value == b"seven"
    assert "invalid literal" in trail.cause
    assert trail.attempts == 1


async def test_a_retry_waits_in_its_topic_until_its_time_has_come(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 1, partitions=1)
    calls: list[tuple[str, float]] = []
    retry = Retry(0, rounds=2, delay=(0.3, 0.3))

    @parallel(topic, group_id=group, retry=retry, retry_topic=f"{topic}.retry", dlq=f"{topic}.dlq")
    async def handle(message: RawMessage) -> None:
        calls.append((message.topic, time.monotonic()))
        trail = trail_in(message.headers)
        if trail is None or trail.round < 2:
            raise ValueError("not yet")

    running = asyncio.create_task(handle.serve(bootstrap_servers=servers))
    await happens(lambda: len(calls) == 3, running)
    await wait_until_read(servers, group, [topic, f"{topic}.retry"])
    handle.stop()
    await running
    assert [name for name, _ in calls] == [topic, f"{topic}.retry", f"{topic}.retry"]
    assert all(later - earlier >= 0.29 for (_, earlier), (_, later) in pairwise(calls))
    assert await letters_in(servers, f"{topic}.dlq") == []


async def test_without_a_dead_letter_topic_the_worker_stops_at_the_record(
    served: Served, topic: str, group: str
) -> None:
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 20, partitions=1)

    @parallel(topic, group_id=group, retry=Retry(1, backoff=(0.01, 0.01)), order="partition")
    async def handle(message: RawMessage) -> None:
        if message.offset == 7:
            raise ValueError("seven")

    with pytest.raises(HandlerFailed, match=r"offset 7: ValueError: seven") as failed:
        await handle.serve(bootstrap_servers=servers)
    assert failed.value.offset == 7
    assert await asyncio.to_thread(committed, servers, group, topic, 1) == {0: 7}


@pytest.mark.parametrize("way", ["per_thread", "per_batch", "per_range"])
def test_each_way_handles_every_record_once(
    served: Served, topic: str, group: str, way: str
) -> None:
    servers = served.bootstrap_servers
    fill(servers, topic, 500)
    seen = Seen()

    def handle(message: RawMessage) -> None:
        seen.begin(message)
        seen.end(message)

    worker: Worker[bytes | None, bytes | None]
    if way == "per_thread":
        worker = per_thread(topic, group_id=group, threads=2)(handle)
    elif way == "per_batch":
        worker = per_batch(topic, group_id=group, pool=4, batch=50)(handle)
    else:
        worker = per_range(topic, group_id=group, readers=4, size=30)(handle)
    with in_thread(worker, servers):
        until(lambda: seen.count >= 500)
    assert len(set(seen.all())) == seen.count == 500
    assert sum(committed(servers, group, topic).values()) == 500
    if way == "per_thread":
        assert all(offsets == sorted(offsets) for offsets in seen.offsets.values())


@pytest.mark.parametrize("way", ["per_thread", "per_batch", "per_range"])
def test_a_record_that_fails_stops_a_run_and_is_not_committed(
    served: Served, topic: str, group: str, way: str
) -> None:
    servers = served.bootstrap_servers
    fill(servers, topic, 100, partitions=1)

    def handle(message: RawMessage) -> None:
        if message.offset == 42:
            raise ValueError("forty-two")

    worker: Worker[bytes | None, bytes | None]
    if way == "per_thread":
        worker = per_thread(topic, group_id=group, threads=1)(handle)
    elif way == "per_batch":
        worker = per_batch(topic, group_id=group, pool=4)(handle)
    else:
        worker = per_range(topic, group_id=group, readers=2, size=10)(handle)
    with pytest.raises(HandlerFailed, match="offset 42: ValueError: forty-two"):
        worker.run(bootstrap_servers=servers)
    where = committed(servers, group, topic, 1).get(0, 0)
    # A range that another reader was in the middle of is not finished either.
    assert where in (range(0, 41, 10) if way == "per_range" else [42])


def test_a_slow_batch_does_not_cost_the_membership(served: Served, topic: str, group: str) -> None:
    servers = served.bootstrap_servers
    fill(servers, topic, 4, partitions=1)
    calls: list[int] = []

    @per_batch(topic, group_id=group, pool=4, max_poll_interval_ms=POLL_INTERVAL_MS)
    def handle(message: RawMessage) -> None:
        time.sleep(POLL_INTERVAL_MS / 1000 + 1)
        calls.append(message.offset)

    with in_thread(handle, servers):
        until(lambda: len(calls) >= 4)
    assert sorted(calls) == [0, 1, 2, 3]
    assert committed(servers, group, topic, 1) == {0: 4}


async def test_any_callable_that_gives_a_coroutine_is_awaited(
    served: Served, topic: str, group: str
) -> None:
    """Taking one for a blocking function would lose every record."""
    servers = served.bootstrap_servers
    await asyncio.to_thread(fill, servers, topic, 10, partitions=1)
    seen: list[tuple[str, int]] = []

    class Handler:
        async def __call__(self, message: RawMessage) -> None:
            await asyncio.sleep(0)
            seen.append(("object", message.offset))

    async def inner(message: RawMessage) -> None:
        await asyncio.sleep(0)
        seen.append(("lambda", message.offset))

    workers = [
        parallel(topic, group_id=f"{group}-object")(Handler()),
        parallel(topic, group_id=f"{group}-lambda")(lambda message: inner(message)),  # noqa: PLW0108
    ]
    runs = [asyncio.create_task(one.serve(bootstrap_servers=servers)) for one in workers]
    await happens(lambda: len(seen) == 20, *runs)
    for one in workers:
        one.stop()
    await asyncio.gather(*runs)
    assert sorted(seen) == [(kind, n) for kind in ("lambda", "object") for n in range(10)]


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_signal_ends_a_worker_whose_calls_never_do(
    served: Served, topic: str, group: str, kind: str
) -> None:
    servers = served.bootstrap_servers
    fill(servers, topic, 3, partitions=1)
    program = f"""
import asyncio, os, time
from barnabas import parallel

@parallel({topic!r}, group_id={group!r}, drain=0.2, order="none")
{"async " if kind == "asyncio" else ""}def handle(message):
    os.write(1, b"%d\\n" % message.offset)  # one call: threads do not share a line
    {"await asyncio.sleep(1000)" if kind == "asyncio" else "time.sleep(1000)"}

handle.run(bootstrap_servers={servers!r})
print("ended", flush=True)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            begun = sorted(process.stdout.readline() for _ in range(3))
            assert begun == ["0\n", "1\n", "2\n"]
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "ended\n")
    # Where the worker began may be committed, if its first fetch took a second.
    assert committed(servers, group, topic, 1).get(0, 0) == 0


def test_what_cannot_work_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="'kye'; it is one of key, partition, none"):
        parallel("orders", group_id="g", order="kye")
    with pytest.raises(InvalidRequest, match="in a circle"):
        parallel("orders", group_id="g", dlq="orders")
    with pytest.raises(InvalidRequest, match="name topics"):
        parallel(group_id="g")
    with pytest.raises(InvalidRequest, match="threads is 0"):
        per_thread("orders", group_id="g", threads=0)
    with pytest.raises(InvalidRequest, match=r"fetch_max_wiat_ms.*fetch\.max\.wait\.ms"):
        parallel("orders", group_id="g", fetch_max_wiat_ms=1)


async def test_a_stuck_record_is_passed_by_no_more_than_a_window(
    served: Served, topic: str, group: str
) -> None:
    fill(served.bootstrap_servers, topic, 200, partitions=2)
    free = asyncio.Event()
    begun: dict[int, list[int]] = {0: [], 1: []}

    @parallel(topic, group_id=group, order="none", window=5)
    async def handle(message: RawMessage) -> None:
        begun[message.partition].append(message.offset)
        if (message.partition, message.offset) == (0, 0):
            await free.wait()

    with barnabas.sync.PartitionConsumer(
        [(topic, 0), (topic, 1)], bootstrap_servers=served.bootstrap_servers
    ) as reader:
        ends = {at.partition: end for at, end in reader.end_offsets().items()}
    assert min(ends.values()) > 10
    task = asyncio.create_task(handle.serve(bootstrap_servers=served.bootstrap_servers))
    await happens(lambda: len(begun[1]) == ends[1] and len(begun[0]) >= 5, task)
    assert begun[0] == [0, 1, 2, 3, 4]
    free.set()
    await happens(lambda: len(begun[0]) == ends[0], task)
    handle.stop()
    await task
    assert begun == {partition: list(range(end)) for partition, end in ends.items()}
    assert committed(served.bootstrap_servers, group, topic, 2) == ends
