"""The suite "spark": `format("barnabas")` beside Spark's own Kafka source and sink.

One Spark for all (local[2]), the same topics, the same round; the order of the formats changes from
round to round. All rounds of one thing come before the next thing: Spark ends Python workers that
were idle for a minute, and a JVM forgets. And Spark's own connector on both brokers.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run as blocking
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.spark.sending import BatchSender
from barnabas.wire.record_writer import RecordWriter
from bench import proc
from bench.figures import Goal, Row, Sample, Table
from bench.sides import BARNABAS, DELETE_SOON, KAFKA, Side, directory, running_sides
from bench.spark_mirror import (
    MB_PER_S,
    MIRROR_MAKER,
    SPARK,
    copy_with_mirror_maker,
    copy_with_spark,
)
from bench.suite import Settings, Suite, say
from tests.process import running_broker
from tests.support.cache import Missing
from tests.support.spark import check_spark, connector_jars
from tests.waiting import until

ROWS_PER_S = "rows/s"
CPU = "Spark's CPU µs/row"
BATCH_MS = "ms/batch"
PARTITIONS = 6
OURS, THEIRS, FLOOR = "barnabas", "kafka", "floor"
ROWS = {100: 6_000_000, 1000: 1_200_000}
STREAMED = 12_000_000  # of 100 B: a stream's start, a Python process of its own, is to weigh little
WRITTEN = {100: 4_000_000, 1000: 800_000}
MIRRORED = 600_000  # of 1 KB
BATCHES = 20
CONNECTOR = "Spark's Kafka connector 4.2.0"
BATCH_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
MIRROR, MIRROR_ROUNDS = "mirror", 3
QUICK = 0.2
_HEADER_ROOM = 61


@dataclass(frozen=True)
class Task:
    """One thing that sides do. `run` gives a sample for a side's name.

    The first two are compared; the third, if there is one, is the least that Python takes.
    """

    name: str
    label: str
    goals: dict[str, Goal | None]
    run: Callable[[Any, Side, str, float], Sample]
    sides: tuple[str, ...] = (OURS, THEIRS, FLOOR)


# --- topics ---


def _fill(side: Side, topic: str, partitions: int, size: int, rows: int, codec: str) -> None:
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


def _wait_for_leaders(side: Side, topic: str) -> None:
    """Kafka answers for a new topic before its leaders are up; the first batches of a producer are
    then refused and the next taken, and Java's client sends the rest one by one."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    until(lambda: side.has_topic(topic))
    with Admin({"bootstrap.servers": side.bootstrap_servers}) as admin:
        admin.offsets(dict.fromkeys(places, -1))


# --- what is measured ---


@contextmanager
def _timed(spark: Any, sample: Sample, rows: int) -> Iterator[None]:
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


def _reader(
    reader: Any, name: str, side: Side, topic: str, rows: int, size: int, batches: int = 1
) -> Any:
    if name == FLOOR:
        tasks = PARTITIONS if batches == 1 else 1
        return reader.format(FLOOR).options(rows=rows, size=size, tasks=tasks, batches=batches)
    return reader.format(name).options(
        **{"kafka.bootstrap.servers": side.bootstrap_servers, "subscribe": topic}
    )


def _read(size: int, codec: str) -> Callable[[Any, Side, str, float], Sample]:
    def run(spark: Any, side: Side, name: str, scale: float) -> Sample:
        topic, rows = f"spark-{size}-{codec}", int(ROWS[size] * scale)
        _fill(side, topic, PARTITIONS, size, rows, codec)
        sample: Sample = {}
        with _timed(spark, sample, rows):
            rows_of = _reader(spark.read, name, side, topic, rows, size).load()
            rows_of.write.format("noop").mode("overwrite").save()
        return sample

    return run


def _hot(spark: Any, side: Side, name: str, scale: float) -> Sample:
    """One partition, read by one task or by two."""
    rows = int(ROWS[100] * scale / 2)
    _fill(side, "spark-hot", 1, 100, rows, "none")
    sample: Sample = {}
    with _timed(spark, sample, rows):
        reader = _reader(spark.read, OURS, side, "spark-hot", rows, 100)
        reader.option("minPartitions", name).load().write.format("noop").mode("overwrite").save()
    return sample


def _stream(spark: Any, side: Side, name: str, scale: float) -> Sample:
    topic, rows = "spark-stream", int(STREAMED * scale)
    _fill(side, topic, PARTITIONS, 100, rows, "none")
    sample: Sample = {}
    with _timed(spark, sample, rows):
        _available(_reader(spark.readStream, name, side, topic, rows, 100), {})
    return sample


def _batches(spark: Any, side: Side, name: str, scale: float) -> Sample:
    """Triggers with next to nothing to do: one row each, the first two to warm up."""
    batches = 2 + max(int(BATCHES * scale), 5)
    _fill(side, "spark-few", 1, 1000, 100, "none")
    reader = _reader(spark.readStream, name, side, "spark-few", batches, 1000, batches)
    progress = _available(reader, {
        "maxOffsetsPerTrigger": "1",
        "startingOffsets": f'{{"spark-few":{{"0":{100 - batches}}}}}',
    })  # fmt: skip
    took = [each.durationMs["triggerExecution"] for each in progress if each.numInputRows]
    return {BATCH_MS: statistics.median(took[2:])}


def _available(reader: Any, options: dict[str, str]) -> list[Any]:
    """Read all there is; what Spark told of each batch."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            reader.options(**{"startingOffsets": "earliest", **options})
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        told: list[Any] = query.recentProgress
        return told


def _write_unlimited(spark: Any, side: Side, name: str, scale: float) -> Sample:
    """Spark does not add up the size of an Arrow batch at each row: see docs/SPARK.md, Speed."""
    spark.conf.set(BATCH_LIMIT, 2**31 - 1)
    try:
        return _write(100)(spark, side, name, scale)
    finally:
        spark.conf.unset(BATCH_LIMIT)


def _write(size: int) -> Callable[[Any, Side, str, float], Sample]:
    def run(spark: Any, side: Side, name: str, scale: float) -> Sample:
        from pyspark.sql import functions as f

        rows = int(WRITTEN[size] * scale)
        data = spark.range(0, rows, 1, 2).select(
            f.concat(f.lit("key-"), f.col("id")).alias("key"),
            f.lpad(f.col("id").cast("string"), size, "abcdefgh ").alias("value"),
        )
        sample: Sample = {}
        with side.topic(PARTITIONS) as topic:
            _wait_for_leaders(side, topic)
            sink = data.write.format(name).option("kafka.bootstrap.servers", side.bootstrap_servers)
            with _timed(spark, sample, rows):
                sink.option("topic", topic).mode("append").save()
        return sample

    return run


FORMATS = (
    Task("read-100", "read, 100 B", {ROWS_PER_S: Goal(least=2.5), CPU: None}, _read(100, "none")),
    Task("read-1k", "read, 1 KB", {ROWS_PER_S: Goal(least=1.3), CPU: None}, _read(1000, "none")),
    Task("read-100-zstd", "read, 100 B, zstd", {ROWS_PER_S: Goal(least=2.5), CPU: None},
         _read(100, "zstd")),
    Task("read-1k-zstd", "read, 1 KB, zstd", {ROWS_PER_S: Goal(least=1.3), CPU: None},
         _read(1000, "zstd")),
    Task("stream", "stream, all available, 100 B", {ROWS_PER_S: Goal(least=2.0), CPU: None},
         _stream),
    Task("batch", "a batch of one row", {BATCH_MS: Goal(most=1.2)}, _batches),
    Task("write-100", "write, 100 B", {ROWS_PER_S: Goal(least=3.0), CPU: None}, _write(100)),
    Task("write-100-unlimited", "write, 100 B, no byte limit", {ROWS_PER_S: None, CPU: None},
         _write_unlimited),
    Task("write-1k", "write, 1 KB", {ROWS_PER_S: Goal(least=1.5), CPU: None}, _write(1000)),
)  # fmt: skip
# Where Spark's sink usually writes.
ON_KAFKA = tuple(
    replace(each, name=f"kafka-{each.name}", sides=(OURS, THEIRS))
    for each in FORMATS if each.name in ("write-100", "write-1k")
)  # fmt: skip
BESIDE_FLOOR = "Beside a source in Python that reads nothing, and a sink that drops its rows"
HOT = Task("hot", "one partition, two tasks beside one", {ROWS_PER_S: Goal(least=1.3), CPU: None},
           _hot, ("2", "1"))  # fmt: skip
OWN = tuple(
    replace(each, name=f"own-{each.name}", goals={ROWS_PER_S: Goal(least=1.0), CPU: None},
            sides=(BARNABAS, KAFKA))
    for each in FORMATS if each.name in ("read-100", "read-1k", "write-100", "write-1k")
)  # fmt: skip


def _mirrors(settings: Settings, spark: Any, source: Side, base: Path) -> list[Row]:
    """Between two brokers of ours; fewer rounds, as each starts MirrorMaker anew."""
    size, rows = 1000, int(MIRRORED * (QUICK if settings.quick else 1))
    topic = "spark-mirrored"
    _fill(source, topic, PARTITIONS, size, rows, "none")
    found: dict[str, list[float]] = {SPARK: [], MIRROR_MAKER: []}
    with running_broker(base / "mirror-target", DELETE_SOON) as target:
        there = target.bootstrap_servers
        for number in range(MIRROR_ROUNDS + 1):
            say(f"round {number} of {MIRROR_ROUNDS}" if number else "warm-up")
            ours = copy_with_spark(spark, source, there, topic, size * rows)
            say(f"  {SPARK:12} mirror, 1 KB  {ours:,.4g} {MB_PER_S}")
            if not number:
                continue
            theirs = copy_with_mirror_maker(
                base, source, there, topic, PARTITIONS, size * rows, rows
            )
            say(f"  {MIRROR_MAKER:12} mirror, 1 KB  {theirs:,.4g} {MB_PER_S}")
            found[SPARK].append(ours)
            found[MIRROR_MAKER].append(theirs)
    mine, others = found.values()
    ratios = [a / b for a, b in zip(mine, others, strict=True)]
    ours, theirs, ratio = (statistics.median(values) for values in (mine, others, ratios))
    return [Row("mirror, 1 KB", MB_PER_S, ours, theirs, ratio, Goal(least=3.0))]


# --- rounds ---

# By task and side, round by round.
Found = dict[tuple[str, str], list[Sample]]


def _measure(
    spark: Any, sides: Sequence[Side], tasks: Sequence[Task], rounds: int, scale: float
) -> Found:
    """The first round of each task warms up, and does not count."""
    found: Found = {}
    for task in tasks:
        for number in range(rounds + 1):
            say(f"{task.label}, round {number} of {rounds}" if number else f"{task.label}, warm-up")
            for which in task.sides if number % 2 else task.sides[::-1]:
                own = task in OWN
                side = next((s for s in sides if own and s.name == which), sides[0])
                sample = task.run(spark, side, THEIRS if own else which, scale)
                figures = "  ".join(f"{value:,.4g} {figure}" for figure, value in sample.items())
                say(f"  {which:9} {figures}")
                if number:
                    found.setdefault((task.name, which), []).append(sample)
    return found


def _rows(found: Found, tasks: Sequence[Task]) -> list[Row]:
    rows = []
    for task in tasks:
        for figure, goal in task.goals.items():
            ours, theirs, ratio = _medians(found, task, figure, *task.sides[:2])
            rows.append(Row(task.label, figure, ours, theirs, ratio, goal))
    return rows


def _rows_beside_floor(found: Found, tasks: Sequence[Task]) -> list[Row]:
    """How much is reached of what Spark's way to Python allows, and how much that would be."""
    rows = []
    for task in tasks:
        figure = next(iter(task.goals))
        ours, floor, ratio = _medians(found, task, figure, OURS, FLOOR)
        _, _, best = _medians(found, task, figure, FLOOR, THEIRS)
        note = f"that is {best:.3g}x of Spark's own"
        rows.append(Row(task.label, figure, ours, floor, ratio, note=note))
    return rows


def _medians(found: Found, task: Task, figure: str, *which: str) -> tuple[float, float, float]:
    """Of the two sides, and of the rounds' ratios."""
    mine, others = ([sample[figure] for sample in found[task.name, side]] for side in which)
    ratios = [a / b for a, b in zip(mine, others, strict=True)]
    return statistics.median(mine), statistics.median(others), statistics.median(ratios)


def _run(settings: Settings) -> list[Table]:
    try:
        check_spark()
        jars: list[Path] = connector_jars()
    except Missing as missing:
        say(f"Spark cannot be measured: {missing}")
        return []
    from barnabas.pipeline import session
    from bench.spark_floor import FloorSource

    rounds = settings.rounds or (2 if settings.quick else 5)
    scale = QUICK if settings.quick else 1.0
    tables = []
    with directory("disk") as base, running_sides(list(settings.sides), base) as sides:
        spark = session("local[2]", options={
            "spark.jars": ",".join(map(str, jars)),
            "spark.security.credentials.kafka.enabled": "false",
            "spark.driver.memory": "2g",
        })  # fmt: skip
        spark.dataSource.register(FloorSource)
        try:
            for title, tasks, peer in (
                ("On Barnabas: format(\"barnabas\") beside format(\"kafka\")", FORMATS, CONNECTOR),
                ("On Apache Kafka: format(\"barnabas\") beside format(\"kafka\")", ON_KAFKA,
                 CONNECTOR),
                ("On Barnabas: a hot partition", (HOT,), "one task"),
                ("Spark's own connector, on both brokers", OWN, "Kafka 4.3.0"),
            ):  # fmt: skip
                wanted = [task for task in tasks if settings.wants(task.name)]
                if not wanted or (tasks in (OWN, ON_KAFKA) and len(sides) < 2):
                    continue
                say(title)
                on = sides[::-1] if tasks is ON_KAFKA else sides
                found = _measure(spark, on, wanted, rounds, scale)
                tables.append(Table(title, _rows(found, wanted), peer=peer))
                if tasks is FORMATS:
                    rows = _rows_beside_floor(found, wanted)
                    tables.append(Table(BESIDE_FLOOR, rows, peer="does nothing"))
            if settings.wants(MIRROR):
                title = "A mirror, between two brokers of ours"
                say(title)
                rows = _mirrors(settings, spark, sides[0], base)
                tables.append(Table(title, rows, peer="MirrorMaker 4.3.0"))
        finally:
            spark.stop()
    return tables


SUITE = Suite(
    name="spark",
    title="Spark: format(\"barnabas\") beside Spark's own Kafka connector",
    how=(
        "pyspark 4.2.0, local[2], 6 partitions, one Spark and the same broker for both formats, on "
        "the same two cores; 5 interleaved rounds after one to warm up. Reads end in Spark's noop "
        "sink: six million rows of 100 B, 1.2 million of 1 KB, twelve million by a stream. Rows "
        "that are written, four million and 800,000, are made by `range`. Spark's CPU is that of "
        "the JVM and its Python workers. A batch of one row: the median of twenty triggers. What "
        "does nothing is a source that hands one ready Arrow batch to Spark again and again, and "
        "a sink that drops its rows: none in Python can be quicker. A mirror: three rounds; ours "
        "is a whole run on a Spark that is up, MirrorMaker (two tasks, its own defaults) is timed "
        "from when a quarter is copied, so that it is warm. A ratio is the median of the rounds' "
        "ratios."
    ),
    parts=(*(task.name for task in (*FORMATS, *ON_KAFKA, HOT, *OWN)), MIRROR),
    run=_run,
)  # fmt: skip
