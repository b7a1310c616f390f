"""What the suites of Spark share: tasks, their rounds and rows, and a session to measure with.

All rounds of one task come before the next task: Spark ends Python workers that were idle for a
minute, and a JVM discards compiled code.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run as blocking
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.spark.sending import BatchSender
from barnabas.wire.record_writer import RecordWriter
from bench import proc
from bench.figures import Goal, Row, Sample
from bench.sides import Side
from bench.suite import Settings, say
from tests.support.cache import Missing
from tests.support.spark import check_spark, connector_jars
from tests.waiting import until

ROWS_PER_S = "rows/s"
CPU = "Spark's CPU µs/row"
PARTITIONS = 6
OURS, THEIRS, FLOOR = "barnabas", "kafka", "floor"
WRITTEN = {100: 4_000_000, 1000: 800_000}
CONNECTOR = "Spark's Kafka connector 4.2.0"
QUICK = 0.2
_HEADER_ROOM = 61


@dataclass(frozen=True)
class Task:
    """One task of the sides.

    `run` returns a sample for a side's name. The first two sides are compared; the third, if there
    is one, is the minimum for Python.
    """

    name: str
    label: str
    goals: dict[str, Goal | None]
    run: Callable[[Any, Side, str, float], Sample]
    sides: tuple[str, ...] = (OURS, THEIRS, FLOOR)
    on_both: bool = False  # the sides are brokers: Spark's own connector on each


def fill(side: Side, topic: str, partitions: int, size: int, rows: int, codec: str) -> None:
    """Words, of which there are two hundred, so that compressing has something to find."""
    if side.has_topic(topic):
        return
    side.create_topic(topic, partitions)
    words = [f"{number * 7919:08d}".encode() for number in range(200)]
    each = 100_000 // size
    with open_cluster(
        {"bootstrap.servers": side.bootstrap_servers, "compression.type": codec}, {}
    ) as cluster:
        blocking(cluster.view([topic]))
        sender = BatchSender(cluster)
        sender.identify()
        now_ms = time.time_ns() // 1_000_000
        writer = RecordWriter(_HEADER_ROOM)
        for number in range(each):
            value = b" ".join(words[(number * 31 + i) % 200] for i in range(size // 9 + 1))
            writer.append(b"key-%08d" % number, value[:size], (), now_ms)
        records = writer.close()
        for _ in range(rows // partitions // each):
            sender.send([
                sender.pack(TopicPartition(topic, partition), bytearray(records), each, now_ms,
                            now_ms)
                for partition in range(partitions)
            ])  # fmt: skip
        sender.flush()


def wait_for_leaders(side: Side, topic: str) -> None:
    """Kafka answers for a new topic before its leaders are up; the first batches of a producer are
    then refused and the next taken, and Java's client sends the rest one by one."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    until(lambda: side.has_topic(topic))
    with Admin({"bootstrap.servers": side.bootstrap_servers}) as admin:
        admin.offsets(dict.fromkeys(places, -1))


@contextmanager
def timed(spark: Any, sample: Sample, rows: int) -> Iterator[None]:
    cpu, begun = _cpu_s(spark), time.perf_counter()
    yield
    sample[ROWS_PER_S] = rows / (time.perf_counter() - begun)
    sample[CPU] = (_cpu_s(spark) - cpu) / rows * 1e6


def _cpu_s(spark: Any) -> float:
    """Of the JVM and its Python workers."""
    while True:
        try:
            return proc.cpu_s(spark._jvm.java.lang.ProcessHandle.current().pid())
        except FileNotFoundError:
            continue  # a worker ended while it was looked at


def write(size: int) -> Callable[[Any, Side, str, float], Sample]:
    def run(spark: Any, side: Side, name: str, scale: float) -> Sample:
        return write_rows(spark, side, name, size, scale)

    return run


def write_rows(
    spark: Any, side: Side, format_: str, size: int, scale: float, **options: str
) -> Sample:
    from pyspark.sql import functions as f

    rows = int(WRITTEN[size] * scale)
    data = spark.range(0, rows, 1, 2).select(
        f.concat(f.lit("key-"), f.col("id")).alias("key"),
        f.lpad(f.col("id").cast("string"), size, "abcdefgh ").alias("value"),
    )
    sample: Sample = {}
    with side.topic(PARTITIONS) as topic:
        wait_for_leaders(side, topic)
        sink = data.write.format(format_).options(**options).option("topic", topic)
        sink = sink.option("kafka.bootstrap.servers", side.bootstrap_servers)
        with timed(spark, sample, rows):
            sink.mode("append").save()
    return sample


@contextmanager
def spark_session() -> Iterator[Any]:
    """With Spark's own connector; None, with a line that says why, if this machine has none."""
    try:
        check_spark()
        jars: list[Path] = connector_jars()
    except Missing as missing:
        say(f"Spark cannot be measured: {missing}")
        yield None
        return
    from barnabas.pipeline import session

    spark = session("local[2]", options={
        "spark.jars": ",".join(map(str, jars)),
        "spark.security.credentials.kafka.enabled": "false",
        "spark.driver.memory": "2g",
    })  # fmt: skip
    try:
        yield spark
    finally:
        spark.stop()


# By task and side, round by round.
Found = dict[tuple[str, str], list[Sample]]


def measure(
    spark: Any, sides: Sequence[Side], tasks: Sequence[Task], rounds: int, scale: float
) -> Found:
    """The first round of each task is a warm-up, and is not measured."""
    found: Found = {}
    for task in tasks:
        for number in range(rounds + 1):
            say(f"{task.label}, round {number} of {rounds}" if number else f"{task.label}, warm-up")
            for which in task.sides if number % 2 else task.sides[::-1]:
                side = next((s for s in sides if task.on_both and s.name == which), sides[0])
                sample = task.run(spark, side, THEIRS if task.on_both else which, scale)
                figures = "  ".join(f"{value:,.4g} {figure}" for figure, value in sample.items())
                say(f"  {which:9} {figures}")
                if number:
                    found.setdefault((task.name, which), []).append(sample)
    return found


def rows_of(found: Found, tasks: Sequence[Task]) -> list[Row]:
    rows = []
    for task in tasks:
        for figure, goal in task.goals.items():
            ours, theirs, ratio = medians(found, task, figure, *task.sides[:2])
            rows.append(Row(task.label, figure, ours, theirs, ratio, goal))
    return rows


def medians(found: Found, task: Task, figure: str, *which: str) -> tuple[float, float, float]:
    """The medians of the two sides, and of the ratios of the rounds."""
    mine, others = ([sample[figure] for sample in found[task.name, side]] for side in which)
    ratios = [a / b for a, b in zip(mine, others, strict=True)]
    return statistics.median(mine), statistics.median(others), statistics.median(ratios)


def rounds_of(settings: Settings) -> int:
    return settings.rounds or (2 if settings.quick else 5)
