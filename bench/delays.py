"""The suite "delays": how late records are delivered at the time in their header.

In: settings. Out: a table of our own figures: Apache Kafka has no such delivery. Records are due at
a steady rate; a delayer that runs as a process of its own moves them, and a consumer of committed
records compares the time at which it receives each with the time in its value.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer

from bench.figures import CPU, P50, P99, Goal, Row, Table
from bench.proc import cpu_s
from bench.sides import BARNABAS, Side, directory, running_sides
from bench.suite import PLACES, Settings, Suite, say
from tests.waiting import until

RATE = 1_000  # records per second
RECORDS, RECORDS_QUICK = 30_000, 5_000
AHEAD_S = 5.0  # the delayer has read all records before the first is due
TARGET, HOLDING = "delivered", "later"
READY = "barnabas delay delivers from "
MAX = "max ms"
EARLY, TWICE = "early records", "records that came twice"
TIMEOUT_S = 60


@contextmanager
def _delayer(servers: str, log: Path) -> Iterator[int]:
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "delay", "run", HOLDING, "-b", servers],
            stdout=file,
            stderr=file,
        )
    try:
        until(lambda: READY in log.read_text(), log.read_text)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _send(servers: str, count: int) -> None:
    """Their values are their times, in milliseconds; each has a key of its own."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    first = time.time() + AHEAD_S + count / 50_000
    for number in range(count):
        due = str(int((first + number / RATE) * 1000))
        headers: list[tuple[str, str | bytes | None]] = [
            ("deliver-at", due),
            ("deliver-to", TARGET),
        ]
        producer.produce(HOLDING, due, key=str(number), headers=headers)
        if number % 1_000 == 0:
            producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise TimeoutError("records for the holding topic were not sent")


def _receive(servers: str, count: int) -> tuple[list[float], int]:
    """How late each record is, in milliseconds; and how many came twice."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"delays-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.subscribe([TARGET])
    late: list[float] = []
    keys: set[bytes] = set()
    heard = time.perf_counter()
    while len(keys) < count:
        messages = consumer.consume(500, 0.1)
        now = time.time() * 1000
        if messages:
            heard = time.perf_counter()
        elif time.perf_counter() - heard > TIMEOUT_S:
            raise TimeoutError(f"{count - len(keys)} records were not delivered")
        for message in messages:
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                keys.add(bytes(key))
                late.append(now - int(value))
    consumer.close()
    return late, len(late) - len(keys)


def _measure(side: Side, home: Path, count: int) -> list[Row]:
    servers = side.bootstrap_servers
    side.create_topic(TARGET)
    with _delayer(servers, home / "delayer.log") as pid:
        _send(servers, count)
        broker, delayer = side.cpu_s(), cpu_s(pid)
        late, twice = _receive(servers, count)
        delayer_us = (cpu_s(pid) - delayer) / count * 1e6
        broker_us = (side.cpu_s() - broker) / count * 1e6
    late.sort()
    what = f"{RATE:,} records/s"

    def row(unit: str, value: float, most: float | None = None) -> Row:
        goal = None if most is None else Goal(most=most)
        return Row(what, unit, value, None, None, goal, plain=True)

    return [
        row(P50, late[len(late) // 2]),
        row(P99, late[int(len(late) * 0.99)], 50),
        row(MAX, late[-1]),
        row(EARLY, sum(each < 0 for each in late), 0),
        row(TWICE, twice, 0),
        row(CPU, broker_us),
        row("delayer CPU µs/record", delayer_us),
    ]


def _run(settings: Settings) -> list[Table]:
    if BARNABAS not in settings.sides or not settings.wants("lateness"):
        return []
    tables = []
    for place in settings.places or ("ram",):
        say(PLACES[place])
        with directory(place) as base, running_sides([BARNABAS], base) as (side,):
            rows = _measure(side, base, RECORDS_QUICK if settings.quick else RECORDS)
        tables.append(Table(f"Lateness: {PLACES[place].lower()}", rows, peer="-"))
    return tables


SUITE = Suite(
    name="delays",
    title="Delivery at a time: how late",
    how=(
        f"{RECORDS:,} records of one holding partition are due one after the other, {RATE:,} in a "
        "second. `barnabas delay run` moves them to a topic with one partition. A librdkafka "
        "consumer with `isolation.level=read_committed` compares the time at which it receives "
        "each record with the time for which it was sent: lateness includes the transaction, the "
        "fetch and the consumer. All records are sent before the first is due."
    ),
    parts=("lateness",),
    run=_run,
)
