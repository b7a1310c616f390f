"""The suite "spark": `format("barnabas")` beside Spark's own Kafka source and sink.

One Spark for all (local[2]), the same topics, the same round; the order of the formats changes from
round to round. Also measures Spark's own connector on both brokers.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bench.figures import Goal, Row, Sample, Table
from bench.sides import BARNABAS, KAFKA, Side, directory, running_sides
from bench.spark_mirror import measured_mirrors
from bench.spark_tasks import (
    CONNECTOR,
    CPU,
    FLOOR,
    OURS,
    PARTITIONS,
    QUICK,
    ROWS_PER_S,
    THEIRS,
    Found,
    Task,
    fill,
    measure,
    medians,
    rounds_of,
    rows_of,
    spark_session,
    timed,
    write,
)
from bench.suite import Settings, Suite, say

BATCH_MS = "ms/batch"
ROWS = {100: 6_000_000, 1000: 1_200_000}
STREAMED = 12_000_000  # of 100 B: a stream's start, a Python process of its own, is to weigh little
BATCHES = 20
BATCH_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
MIRROR = "mirror"


# --- what is measured ---


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
        fill(side, topic, PARTITIONS, size, rows, codec)
        sample: Sample = {}
        with timed(spark, sample, rows):
            found = _reader(spark.read, name, side, topic, rows, size).load()
            found.write.format("noop").mode("overwrite").save()
        return sample

    return run


def _hot(spark: Any, side: Side, name: str, scale: float) -> Sample:
    """One partition, read by one task or by two."""
    rows = int(ROWS[100] * scale / 2)
    fill(side, "spark-hot", 1, 100, rows, "none")
    sample: Sample = {}
    with timed(spark, sample, rows):
        reader = _reader(spark.read, OURS, side, "spark-hot", rows, 100)
        reader.option("minPartitions", name).load().write.format("noop").mode("overwrite").save()
    return sample


def _stream(spark: Any, side: Side, name: str, scale: float) -> Sample:
    topic, rows = "spark-stream", int(STREAMED * scale)
    fill(side, topic, PARTITIONS, 100, rows, "none")
    sample: Sample = {}
    with timed(spark, sample, rows):
        _available(_reader(spark.readStream, name, side, topic, rows, 100), {})
    return sample


def _batches(spark: Any, side: Side, name: str, scale: float) -> Sample:
    """Triggers with almost no work: one row each, the first two as warm-up."""
    batches = 2 + max(int(BATCHES * scale), 5)
    fill(side, "spark-few", 1, 1000, 100, "none")
    reader = _reader(spark.readStream, name, side, "spark-few", batches, 1000, batches)
    progress = _available(reader, {
        "maxOffsetsPerTrigger": "1",
        "startingOffsets": f'{{"spark-few":{{"0":{100 - batches}}}}}',
    })  # fmt: skip
    took = [each.durationMs["triggerExecution"] for each in progress if each.numInputRows]
    return {BATCH_MS: statistics.median(took[2:])}


def _available(reader: Any, options: dict[str, str]) -> list[Any]:
    """Reads all records; returns Spark's progress of each batch."""
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
        return write(100)(spark, side, name, scale)
    finally:
        spark.conf.unset(BATCH_LIMIT)


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
    Task("write-100", "write, 100 B", {ROWS_PER_S: Goal(least=3.0), CPU: None}, write(100)),
    Task("write-100-unlimited", "write, 100 B, no byte limit", {ROWS_PER_S: None, CPU: None},
         _write_unlimited),
    Task("write-1k", "write, 1 KB", {ROWS_PER_S: Goal(least=1.5), CPU: None}, write(1000)),
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
            sides=(BARNABAS, KAFKA), on_both=True)
    for each in FORMATS if each.name in ("read-100", "read-1k", "write-100", "write-1k")
)  # fmt: skip


def _rows_beside_floor(found: Found, tasks: Sequence[Task]) -> list[Row]:
    """The ratio to the minimum for Python, and of that minimum to Spark's own connector."""
    rows = []
    for task in tasks:
        figure = next(iter(task.goals))
        ours, floor, ratio = medians(found, task, figure, OURS, FLOOR)
        _, _, best = medians(found, task, figure, FLOOR, THEIRS)
        note = f"that is {best:.3g}x of Spark's own"
        rows.append(Row(task.label, figure, ours, floor, ratio, note=note))
    return rows


def _run(settings: Settings) -> list[Table]:
    from bench.spark_floor import FloorSource

    scale = QUICK if settings.quick else 1.0
    tables = []
    with (
        spark_session() as spark,
        directory("disk") as base,
        running_sides(list(settings.sides), base) as sides,
    ):
        if spark is None:
            return []
        spark.dataSource.register(FloorSource)
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
            found = measure(spark, on, wanted, rounds_of(settings), scale)
            tables.append(Table(title, rows_of(found, wanted), peer=peer))
            if tasks is FORMATS:
                rows = _rows_beside_floor(found, wanted)
                tables.append(Table(BESIDE_FLOOR, rows, peer="does nothing"))
        if settings.wants(MIRROR):
            title = "A mirror, between two brokers of ours"
            say(title)
            rows = measured_mirrors(settings, spark, sides[0], base)
            tables.append(Table(title, rows, peer="MirrorMaker 4.3.0"))
    return tables


SUITE = Suite(
    name="spark",
    title="Spark: format(\"barnabas\") beside Spark's own Kafka connector",
    how=(
        "pyspark 4.2.0, local[2], 6 partitions, one Spark and the same broker for both formats, "
        "on the same two cores; 5 interleaved rounds after one warm-up round. Reads end in "
        "Spark's noop sink: six million rows of 100 B, 1.2 million of 1 KB, twelve million in a "
        "stream. The written rows, four million and 800,000, are made by `range`. Spark's CPU "
        "is that of the JVM and its Python workers. A batch of one row is the median of twenty "
        "triggers. The comparison that does nothing is a source that gives one prepared Arrow "
        "batch to Spark again and again, and a sink that drops its rows: no Python source or "
        "sink can be faster. A mirror: three rounds; ours is a whole run on a running Spark, "
        "MirrorMaker (two tasks, default options) is measured from the moment when a quarter is "
        "copied, so that it is warm. A ratio is the median of the ratios of the rounds."
    ),
    parts=(*(task.name for task in (*FORMATS, *ON_KAFKA, HOT, *OWN)), MIRROR),
    run=_run,
)  # fmt: skip
