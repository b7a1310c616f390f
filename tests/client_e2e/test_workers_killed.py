"""Workers killed in the middle of their work: nothing is lost, each dead letter is there once."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

import barnabas
from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.client.workers.dead_letter_headers import LetterTrail, trail_in
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import OPTIONS, Served
from tests.conftest import StartBroker
from tests.waiting import PROGRAM_S, until

PARTITIONS = 4
RECORDS = 3_000
POISON = 40
KILLS = 2


class Workers:
    """Processes that can be killed."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *how: str) -> None:
        with open(self._log, "ab") as log:
            process = subprocess.Popen([*self._command, *how], stdout=subprocess.PIPE, stderr=log)
        self._running.append(process)

    def kill_one(self, chance: random.Random) -> None:
        self.kill(chance.randrange(len(self._running)))

    def kill(self, number: int) -> None:
        victim = self._running.pop(number)
        victim.kill()
        victim.communicate()

    def kill_all(self) -> None:
        while self._running:
            self.kill(0)

    @property
    def said(self) -> str:
        """The ends of the processes, and of what they logged."""
        ended = [process.poll() for process in self._running]
        return f"exit codes {ended}, log: {self._log.read_text()[-4000:]}"

    def check_running(self) -> None:
        assert all(process.poll() is None for process in self._running), self.said

    def stop(self) -> list[int]:
        """Exit codes after SIGTERM."""
        codes = []
        for process in self._running:
            until(partial(_heeds_sigterm, process.pid))
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.communicate(timeout=PROGRAM_S)
            codes.append(process.returncode)
        self._running.clear()
        return codes


def _heeds_sigterm(pid: int) -> bool:
    """One that was started just now would simply end."""
    status = Path(f"/proc/{pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@contextmanager
def workers(servers: str, group: str, topic: str, notes: Path, *how: str) -> Iterator[Workers]:
    program = [sys.executable, "-m", "tests.client_e2e.worker_program"]
    command = [*program, servers, group, topic, str(notes), *how]
    started = Workers(command, notes.with_name("log"))
    try:
        yield started
    finally:
        started.kill_all()


def produce(servers: str, topic: str) -> tuple[set[str], set[str]]:
    """Good values and poison ones."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    good = {f"good-{number}" for number in range(RECORDS)}
    bad = {f"poison-{number}" for number in range(POISON - 5)}
    bad |= {f"reject-{number}" for number in range(5)}
    values = sorted(good | bad, key=lambda value: (hash(value), value))
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), key=f"key-{number % 50}".encode())
    assert producer.flush(PROGRAM_S) == 0
    return good, bad


async def letters_in(servers: str, topic: str) -> list[tuple[RawMessage, LetterTrail]]:
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        count = len((await admin.topic(topic)).partitions)
        partitions = [TopicPartition(topic, number) for number in range(count)]
        stops = await admin.offsets(dict.fromkeys(partitions, LATEST))
        starts = await admin.offsets(dict.fromkeys(partitions, EARLIEST))
    assert all(start.offset == 0 for start in starts.values())
    found = []
    async with PartitionConsumer(
        partitions, bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.stop_at({at: stop.offset for at, stop in stops.items()})
        async for message in consumer:
            trail = trail_in(message.headers)
            assert trail is not None
            found.append((message, trail))
    return found


def noted(notes: Path) -> set[str]:
    return set(notes.read_text().splitlines()) if notes.exists() else set()


async def wait_until_read(
    servers: str, group: str, topics: list[str], running: Workers | None = None
) -> None:
    """Until the group has committed the end of every partition."""
    deadline = time.monotonic() + PROGRAM_S
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        while True:
            partitions = [
                TopicPartition(topic, partition.number)
                for topic in topics
                for partition in (await admin.topic(topic)).partitions
            ]
            ends = await admin.offsets(dict.fromkeys(partitions, LATEST))
            async with PartitionConsumer(bootstrap_servers=servers, group_id=group) as reader:
                committed = await reader.committed(*partitions)
            left = {
                at: end.offset
                for at, end in ends.items()
                if end.offset and (at not in committed or committed[at].offset < end.offset)
            }
            if not left:
                return
            said = ""
            if running is not None:
                running.check_running()
                said = running.said
            assert time.monotonic() < deadline, f"not committed: {left}, {committed}; {said}"
            await admin._cluster.net.sleep(200)


async def test_nothing_is_lost_and_each_dead_letter_is_there_once(
    served: Served, topic: str, group: str, tmp_path: Path
) -> None:
    """Workers of asyncio and of blocking functions share the group."""
    servers = served.bootstrap_servers
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=PARTITIONS)
    good, bad = produce(servers, topic)
    notes = tmp_path / "notes"
    chance = random.Random(7)
    topics = [topic, f"{topic}.retry"]
    with workers(servers, group, topic, notes, "retry") as running:
        running.start()
        running.start("blocking")
        for _ in range(KILLS):
            before = len(noted(notes))
            await _wait_for_progress(notes, before, more=RECORDS // 8)
            running.kill_one(chance)
            running.start(*chance.choice(((), ("blocking",))))
        await wait_until_read(servers, group, topics)
        assert running.stop() == [0, 0]
    assert noted(notes) == good
    dead = await letters_in(servers, f"{topic}.dlq")
    counts = Counter(str(trail.origin) for _, trail in dead)
    assert set(counts.values()) == {1}, [one for one in counts.items() if one[1] > 1]
    assert {(message.value or b"").decode() for message, _ in dead} == bad
    for message, trail in dead:
        value = (message.value or b"").decode()
        kind = "Reject: " if value.startswith("reject") else "ValueError: "
        assert trail.cause.startswith(f"{kind}{value}")
        assert (trail.group, trail.origin.topic) == (group, topic)


async def _wait_for_progress(notes: Path, before: int, more: int) -> None:
    deadline = time.monotonic() + PROGRAM_S
    async with barnabas.Admin() as idle:
        while len(noted(notes)) < before + more:
            assert time.monotonic() < deadline, f"{len(noted(notes))} of {before + more}"
            await idle._cluster.net.sleep(50)


async def test_a_broker_that_is_killed_costs_no_record_and_no_letter(
    start_broker: StartBroker, topic: str, group: str, tmp_path: Path
) -> None:
    own_broker = start_broker(OPTIONS)
    servers = own_broker.bootstrap_servers
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=PARTITIONS)
    good, bad = produce(servers, topic)
    notes = tmp_path / "notes"
    with workers(servers, group, topic, notes) as running:
        running.start()
        await _wait_for_progress(notes, 0, more=RECORDS // 8)
        own_broker.kill()
        own_broker.start()
        await wait_until_read(servers, group, [topic])
        assert running.stop() == [0]
    assert noted(notes) == good
    dead = await letters_in(servers, f"{topic}.dlq")
    assert sorted((message.value or b"").decode() for message, _ in dead) == sorted(bad)
