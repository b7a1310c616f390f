"""The suite "log": compaction, recovery and start, beside Apache Kafka.

In: settings. Out: tables. Both brokers get the very same files, made beforehand.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from barnabas.log.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER,
    RECOVERY_POINT,
    CorruptCheckpoint,
    decode_offsets,
)
from bench import librdkafka, log_files, proc
from bench.figures import Goal, Row, Table
from bench.sides import BARNABAS, DELETE_SOON, KAFKA, Side, directory
from bench.suite import Settings, Suite, say
from tests.process import BrokerProcess
from tests.support import kafka

MB = 1_000_000
COMPACTED_BYTES = 5_000 * MB
RECOVERED_BYTES = 10_000 * MB
KEYS = 1_000_000
PARTITIONS = 5_000
SEGMENT_BYTES = 256 << 20
TOPIC = "filled"
DEADLINE_S = 1_200.0
QUICK_SHARE = 10
PRODUCE_BYTES = 1_000
PRODUCE_RECORDS = 100_000
WORKER_MB_MAX = 128
ROUNDS_BESIDE = 5
ALONE_S = 12.0  # about as long as a compaction takes
OPTIONS = {**DELETE_SOON, "log.cleaner.backoff.ms": "200", "log.cleaner.threads": "1"}
NEVER = "1.0"  # a dirty ratio that no log is above


@dataclass
class Broker:
    """One of the two, to be stopped and started on the same files."""

    name: str
    home: Path
    options: Mapping[str, str]
    data: Path
    start: Callable[[], Side]
    stop: Callable[[], None]


@contextmanager
def brokers(
    names: tuple[str, ...], base: Path, options: Mapping[str, str]
) -> Iterator[list[Broker]]:
    made = [_kafka(base, options) if name == KAFKA else _ours(base, options) for name in names]
    try:
        yield made
    finally:
        for broker in made:
            broker.stop()


def _ours(base: Path, options: Mapping[str, str]) -> Broker:
    home = base / BARNABAS
    home.mkdir()
    more = {name: value for name, value in options.items() if name != "log.cleaner.threads"}
    process = BrokerProcess(home / "data", more, log=home / "log")
    running = []

    def start() -> Side:
        process.start()
        running.append(True)
        return Side(BARNABAS, process.bootstrap_servers, process.pid)

    def stop() -> None:
        if running:
            running.clear()
            process.stop()

    return Broker(BARNABAS, home, options, home / "data", start, stop)


def _kafka(base: Path, options: Mapping[str, str]) -> Broker:
    home = base / KAFKA
    properties, port = kafka.prepare(home, options)
    running: list[kafka.KafkaBroker] = []

    def start() -> Side:
        running.append(kafka.start(properties, port))
        return Side(KAFKA, running[0].bootstrap_servers, running[0].pid)

    def stop() -> None:
        while running:
            running.pop().stop()

    return Broker(KAFKA, home, options, home / "data", start, stop)


# Compaction


def _compaction(settings: Settings) -> list[Table]:
    share = QUICK_SHARE if settings.quick else 1
    total, keys = COMPACTED_BYTES // share, KEYS // share
    figures: dict[str, dict[str, float]] = {}
    with directory("disk") as base:
        say(f"writing {total // MB:,} MB over {keys:,} keys")
        files, end = log_files.write_log(base / "files", total, keys, SEGMENT_BYTES)
        with brokers(settings.sides, base, OPTIONS) as both:
            for broker in both:
                figures[broker.name] = _compact(broker, files, end, total)
                say(f"  {broker.name}: {figures[broker.name]}")
                broker.stop()
    return [Table(_title(total, keys), list(_compaction_rows(figures)))]


def _title(total: int, keys: int) -> str:
    return f"Compaction of {total / 1e9:g} GB of 1 KB records over {keys:,} keys, on disk"


def _compaction_rows(figures: Mapping[str, Mapping[str, float]]) -> Iterator[Row]:
    ours, theirs = figures.get(BARNABAS, {}), figures.get(KAFKA, {})
    goals = {
        "MB/s": (Goal(least=1.0), False),
        "MB of memory, the worker": (Goal(most=WORKER_MB_MAX), True),
        "of its speed, producing meanwhile": (Goal(least=0.8), True),
    }
    for name in dict.fromkeys((*ours, *theirs)):
        goal, plain = goals.get(name, (None, False))
        mine, its = ours.get(name), theirs.get(name)
        ratio = mine / its if mine is not None and its else None
        yield Row("compaction", name, mine, its, ratio, goal, plain)


def _compact(broker: Broker, files: Path, end: int, total: int) -> dict[str, float]:
    """Over the same files again and again: alone, and with a producer on another topic."""
    side = broker.start()
    admin = AdminClient({"bootstrap.servers": side.bootstrap_servers, "log_level": 0})
    topics = ("alone", *(f"beside-{number}" for number in range(ROUNDS_BESIDE)))
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": NEVER,
        "segment.bytes": str(SEGMENT_BYTES),
    }
    made = admin.create_topics([NewTopic(name, 1, 1, config=config) for name in topics])
    for result in made.values():
        result.result(60)
    broker.stop()
    for name in topics:
        log_files.put_in_place(files, broker.data / f"{name}-0")
        _forget(broker.data / CLEANER, name)
    side = broker.start()
    admin = AdminClient({"bootstrap.servers": side.bootstrap_servers, "log_level": 0})
    _wait_for_end(admin, "alone", end)
    sample: dict[str, float] = {}
    before_cpu = side.cpu_s()
    with _watched(side) as peak_mb:
        seconds = _until_clean(admin, broker, "alone", end)
    sample["MB/s"] = total / MB / seconds
    sample["CPU s"] = side.cpu_s() - before_cpu
    sample["MB kept"] = _bytes(broker.data / "alone-0") / MB
    if broker.name == BARNABAS:
        sample["MB of memory, the worker"] = peak_mb[0]
    else:
        sample["MB of memory, the broker"] = side.rss_mb()
    rounds: list[tuple[float, float, float]] = []
    for name in topics[1:]:
        rounds.append(_beside(admin, broker, side, name, end, alone_first=len(rounds) % 2 == 1))
        say(f"  {broker.name}: " + ", ".join(f"{each:,.1f}" for each in rounds[-1]))
    sample["MB/s, producing meanwhile"] = median(total / MB / each[0] for each in rounds)
    sample["records/s, producing alone"] = median(each[2] for each in rounds)
    sample["of its speed, producing meanwhile"] = median(each[1] / each[2] for each in rounds)
    return sample


def _beside(
    admin: AdminClient, broker: Broker, side: Side, name: str, end: int, *, alone_first: bool
) -> tuple[float, float, float]:
    """Seconds of compaction; records a second produced meanwhile, and as long without it."""
    quiet = _produced_alone(admin, broker, side) if alone_first else 0.0
    done = threading.Event()
    rates: list[float] = []
    with _fresh_topic(admin, broker) as topic:
        thread = threading.Thread(
            target=lambda: rates.append(_producing(side, topic, lambda _: done.is_set()))
        )
        thread.start()
        seconds = _until_clean(admin, broker, name, end)
        done.set()
        thread.join()
    return seconds, rates[0], quiet or _produced_alone(admin, broker, side)


def _produced_alone(admin: AdminClient, broker: Broker, side: Side) -> float:
    with _fresh_topic(admin, broker) as topic:
        return _producing(side, topic, lambda running_s: running_s >= ALONE_S)


@contextmanager
def _fresh_topic(admin: AdminClient, broker: Broker) -> Iterator[str]:
    """To produce to, with a disk and a page cache as they are before anybody has: what a producer
    gets while they take all in, it does not get for long."""
    name = f"other-{time.monotonic_ns()}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    os.sync()
    yield name
    admin.delete_topics([name])[name].result(60)
    deadline = time.monotonic() + DEADLINE_S
    while any(broker.data.glob(f"{name}-*")):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} does not delete {name}")
        time.sleep(0.1)


def _forget(checkpoint: Path, topic: str) -> None:
    assert not checkpoint.exists() or topic not in checkpoint.read_text()


def _until_clean(admin: AdminClient, broker: Broker, topic: str, end: int) -> float:
    """From the moment the log is dirty enough until the checkpoint says it is clean."""
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(
                "min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET
            )
        ],
    )
    started = time.perf_counter()
    for result in admin.incremental_alter_configs([resource]).values():
        result.result(30)
    while time.perf_counter() - started < DEADLINE_S:
        if _cleaned_to(broker.data / CLEANER, topic) >= end:
            return time.perf_counter() - started
        time.sleep(0.05)
    raise RuntimeError(f"{broker.name} did not compact {topic} within {DEADLINE_S:.0f} s")


def _cleaned_to(path: Path, topic: str) -> int:
    try:
        offsets = decode_offsets(path.read_bytes())
    except (FileNotFoundError, CorruptCheckpoint):  # none yet, or Kafka's of no bytes
        return 0
    return next((offset for at, offset in offsets.items() if at.topic == topic), 0)


@contextmanager
def _watched(side: Side) -> Iterator[list[float]]:
    """The most memory that any child of the broker has held."""
    peak = [0.0]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            for pid in proc.family(side.pid)[1:]:
                peak[0] = max(peak[0], proc.peak_rss_mb(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _producing(side: Side, topic: str, enough: Callable[[float], bool]) -> float:
    """Over and over until it is enough; records a second, over all of it."""
    started = time.perf_counter()
    records = 0
    while not records or not enough(time.perf_counter() - started):
        librdkafka.produce(
            side.bootstrap_servers,
            topic,
            PRODUCE_RECORDS,
            PRODUCE_BYTES,
            librdkafka.PRODUCE_LARGE_BATCHES,
        )
        records += PRODUCE_RECORDS
    return records / (time.perf_counter() - started)


def _bytes(partition: Path) -> float:
    return float(sum(file.stat().st_size for file in partition.glob("*.log")))


def _wait_for_end(admin: AdminClient, topic: str, end: int) -> None:
    at = TopicPartition(topic, 0)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            found = admin.list_offsets({at: latest}, request_timeout=5)[at].result(10)
        except Exception:
            time.sleep(0.05)
            continue
        if found.offset >= end:
            return
    raise RuntimeError(f"{topic} does not reach {end}")


# Recovery and start


def _recovery(settings: Settings) -> list[Table]:
    share = QUICK_SHARE if settings.quick else 1
    total = RECOVERED_BYTES // share
    seconds: dict[str, float] = {}
    with directory("disk") as base:
        say(f"writing {total // MB:,} MB")
        files, end = log_files.write_log(base / "files", total, 0, 1 << 30)
        with brokers(settings.sides, base, {}) as both:
            for broker in both:
                side = broker.start()
                side.create_topic(TOPIC)
                broker.stop()
                log_files.put_in_place(files, broker.data / f"{TOPIC}-0")
                (broker.data / CLEAN_SHUTDOWN).unlink()
                (broker.data / RECOVERY_POINT).write_text("0\n0\n")
                started = time.perf_counter()
                side = broker.start()
                admin = AdminClient({"bootstrap.servers": side.bootstrap_servers, "log_level": 0})
                _wait_for_end(admin, TOPIC, end)
                seconds[broker.name] = time.perf_counter() - started
                say(f"  {broker.name}: {seconds[broker.name]:.1f} s")
                broker.stop()
    rates = {name: total / MB / value for name, value in seconds.items()}
    ours, theirs = rates.get(BARNABAS), rates.get(KAFKA)
    ratio = ours / theirs if ours and theirs else None
    title = f"Start on {total / 1e9:g} GB of log after a crash, all of it to be checked"
    return [Table(title, [Row("recovery", "MB/s", ours, theirs, ratio, Goal(least=1.0))])]


def _start(settings: Settings) -> list[Table]:
    share = QUICK_SHARE if settings.quick else 1
    count = PARTITIONS // share
    seconds: dict[str, float] = {}
    with directory("disk") as base, brokers(settings.sides, base, {}) as both:
        for broker in both:
            side = broker.start()
            for number in range(max(1, count // 500)):
                side.create_topic(f"many-{number}", min(count, 500))
            broker.stop()
            started = time.perf_counter()
            broker.start()
            seconds[broker.name] = time.perf_counter() - started
            broker.stop()
    ours, theirs = seconds.get(BARNABAS), seconds.get(KAFKA)
    ratio = ours / theirs if ours and theirs else None
    row = Row(f"start with {count:,} partitions", "s", ours, theirs, ratio, Goal(most=3.0), True)
    return [Table("Start after a clean stop", [row])]


def run(settings: Settings) -> list[Table]:
    tables: list[Table] = []
    for name, part in PARTS.items():
        if settings.wants(name):
            tables += part(settings)
    return tables


PARTS: dict[str, Callable[[Settings], list[Table]]] = {
    "compaction": _compaction,
    "recovery": _recovery,
    "start-many": _start,
}
SUITE = Suite(
    name="log-life",
    title="A log's life",
    how="Both brokers are given the same segment files, one broker after the other; "
    "log.cleaner.threads=1. Compaction is timed from the change of min.cleanable.dirty.ratio to "
    f"the cleaner's checkpoint. Producing beside it is the median of {ROUNDS_BESIDE} rounds, with "
    "and without compaction in an order that changes, from a disk at rest.",
    parts=tuple(PARTS),
    run=run,
)
