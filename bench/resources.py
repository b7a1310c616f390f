"""Start time and memory: what a broker costs before and between the work.

In: the sides to look at, a directory. Out: `Cost` by cost, each with both sides' figures.
"""

import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import librdkafka
from bench.figures import Goal, Row, Table
from bench.sides import BARNABAS, KAFKA, Side, directory, running_sides
from bench.suite import Settings, say
from tests.ports import free_ports_from
from tests.process import BrokerProcess
from tests.support import kafka
from tests.support.probe import METADATA_REQUEST, ask, wait_for_metadata

SETTLE_S = 2.0
STARTS, STARTS_QUICK = 9, 3
GIGABYTES, GIGABYTES_QUICK = 10, 1
CONNECTIONS, CONNECTIONS_QUICK = 10_000, 2_000

# Ours alone; Kafka's is shown beside it.
HELP_S = Goal(most=0.15)
START_S = Goal(most=0.3)
START_1000_PARTITIONS_S = Goal(most=1.0)
IDLE_MB = Goal(most=60)
TRAFFIC_MB = Goal(most=150)
CONNECTIONS_MB = Goal(most=300)


@dataclass(frozen=True)
class Cost:
    """One kind of cost, and each side's figure once it is measured."""

    what: str
    unit: str
    goal: Goal
    by_side: dict[str, float] = field(default_factory=dict)

    def row(self) -> Row:
        ours, theirs = self.by_side.get(BARNABAS), self.by_side.get(KAFKA)
        ratio = ours / theirs if ours is not None and theirs else None
        return Row(self.what, self.unit, ours, theirs, ratio, self.goal, plain=True)


def tables(settings: Settings) -> list[Table]:
    """One, if any of it is wanted."""
    costs: list[Cost] = []
    sides, quick = list(settings.sides), settings.quick
    if settings.wants("start"):
        with directory("disk") as base:
            costs += start_times(sides, base, STARTS_QUICK if quick else STARTS)
    if settings.wants("memory"):
        connections = CONNECTIONS_QUICK if quick else CONNECTIONS
        connections = min(connections, allow_open_files() - 500)
        with directory("ram") as base:
            gigabytes = GIGABYTES_QUICK if quick else GIGABYTES
            costs += memory(sides, base, gigabytes, connections)
    return [Table("Start and memory", [cost.row() for cost in costs])] if costs else []


def _ours_once(home: Path, port: int, end: Callable[[subprocess.Popen[bytes]], None]) -> float:
    """From the start of the process, not from its ready line."""
    command = BrokerProcess(home / "data", port=port, log=home / "log").command()
    with open(home / "log", "ab") as log:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        )
        try:
            wait_for_metadata("127.0.0.1", port, 60, lambda: process.poll() is None)
            return time.perf_counter() - started
        finally:
            end(process)
            process.wait()


def _kafka_once(properties: Path, port: int) -> float:
    started = time.perf_counter()
    broker = kafka.start(properties, port)
    seconds = time.perf_counter() - started
    broker.stop()
    return seconds


def help_time(repeats: int) -> Cost:
    """What a person waits for `barnabas --help`; Kafka's tools are a JVM's start each."""
    cost = Cost("`barnabas --help`", "s", HELP_S)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        command = [sys.executable, "-m", "barnabas", "--help"]
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    cost.by_side[BARNABAS] = statistics.median(seconds)
    return cost


def start_times(sides: list[str], base: Path, repeats: int) -> list[Cost]:
    """Medians, empty and with a topic of 1,000 partitions."""
    empty = Cost("start to the first Metadata answer", "s", START_S)
    clean = Cost("the same with 1,000 partitions", "s", START_1000_PARTITIONS_S)
    killed = Cost("the same after kill -9", "s", START_1000_PARTITIONS_S)
    for name in sides:
        say(f"start time of {name}")
        home = base / f"start-{name}"
        home.mkdir()
        if name == KAFKA:
            properties, port = kafka.prepare(home)
            runs = [_kafka_once(properties, port) for _ in range(max(2, repeats // 3))]
            empty.by_side[name] = statistics.median(runs)
            broker = kafka.start(properties, port)
            Side(name, broker.bootstrap_servers, broker.pid).create_topic("many", 1000)
            broker.stop()
            clean.by_side[name] = _kafka_once(properties, port)
        else:
            _start_times_of_ours(home, repeats, empty, clean, killed)
        shutil.rmtree(home)
    return [empty, clean, killed, *([help_time(repeats)] if BARNABAS in sides else [])]


def _start_times_of_ours(home: Path, repeats: int, empty: Cost, clean: Cost, killed: Cost) -> None:
    port = free_ports_from(1)
    terminate, kill = subprocess.Popen.terminate, subprocess.Popen.kill

    def median(end: Callable[[subprocess.Popen[bytes]], None]) -> float:
        return statistics.median(_ours_once(home, port, end) for _ in range(repeats))

    empty.by_side[BARNABAS] = median(terminate)
    broker = BrokerProcess(home / "data", port=port, log=home / "log").start()
    Side(BARNABAS, broker.bootstrap_servers, broker.pid).create_topic("many", 1000)
    broker.stop()
    clean.by_side[BARNABAS] = median(terminate)
    _ours_once(home, port, kill)
    killed.by_side[BARNABAS] = median(kill)


def memory(sides: list[str], base: Path, gigabytes: float, connections: int) -> list[Cost]:
    """Idle, with many idle connections, and, on a fresh broker, after traffic."""
    idle = Cost("memory, idle", "MB", IDLE_MB)
    connected = Cost(f"memory, {connections:,} connections", "MB", CONNECTIONS_MB)
    used = Cost(f"memory, after {gigabytes:g} GB in and out", "MB", TRAFFIC_MB)
    for name in sides:
        with running_sides([name], base / f"memory-{name}") as (side,):
            time.sleep(SETTLE_S)
            idle.by_side[name] = side.rss_mb()
            say(f"{connections:,} connections to {name}")
            connected.by_side[name] = _with_connections(side, connections)
        with running_sides([name], base / f"traffic-{name}") as (side,):
            say(f"{gigabytes:g} GB through {name}")
            _pass_through(side, gigabytes)
            used.by_side[name] = side.rss_mb()
        shutil.rmtree(base / f"memory-{name}")
        shutil.rmtree(base / f"traffic-{name}")
    return [idle, connected, used]


def allow_open_files() -> int:
    """As many as this machine lets us have; brokers started from here inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _with_connections(side: Side, count: int) -> float:
    host, _, port = side.bootstrap_servers.rpartition(":")
    with ExitStack() as opened:
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=30)
            opened.enter_context(connection)
            # Each has been served once, as every real client's has.
            connection.sendall(METADATA_REQUEST)
            connection.recv(4096)
        time.sleep(SETTLE_S)
        ask(host, int(port), METADATA_REQUEST)  # one more is still served
        return side.rss_mb()


def _pass_through(side: Side, gigabytes: float) -> None:
    """A gigabyte at a time, each in a topic of its own, deleted when it has been read."""
    left = round(gigabytes * 1_000_000)
    while left:
        records = min(left, 1_000_000)
        left -= records
        with side.topic() as topic:
            librdkafka.produce(
                side.bootstrap_servers, topic, records, 1_000, librdkafka.PRODUCE_LARGE_BATCHES
            )
            librdkafka.consume(side.bootstrap_servers, topic, records, librdkafka.CONSUME)
