"""The suite "spark-once": the exactly-once sink beside our own at-least-once sink, and beside
Spark's own Kafka sink, which is at least once.

All three write the same rows to the same broker of Barnabas, in turns.
"""

from pathlib import Path
from typing import Any

from bench.figures import Goal, Sample, Table
from bench.sides import BARNABAS, Side, directory, running_sides
from bench.spark import (
    CONNECTOR,
    CPU,
    OURS,
    PARTITIONS,
    QUICK,
    ROWS_PER_S,
    THEIRS,
    WRITTEN,
    Task,
    _measure,
    _rows,
    _timed,
    _wait_for_leaders,
)
from bench.suite import Settings, Suite, say
from tests.support.cache import Missing
from tests.support.spark import check_spark, connector_jars

ONCE = "exactly once"


def _write(size: int) -> Any:
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
            sink = data.write.format(OURS if name == ONCE else name)
            if name == ONCE:
                sink = sink.option("exactlyOnce", "true")
            sink = sink.option("kafka.bootstrap.servers", side.bootstrap_servers)
            with _timed(spark, sample, rows):
                sink.option("topic", topic).mode("append").save()
        return sample

    return run


SIDES = (ONCE, OURS, THEIRS)
LEAST = {"write-100": (0.9, 1.7), "write-1k": (0.9, 1.5)}
TASKS = (
    Task("write-100", "write, 100 B", {}, _write(100), SIDES),
    Task("write-1k", "write, 1 KB", {}, _write(1000), SIDES),
)


def _beside(task: Task, peer: str, least: float) -> Task:
    goals = {ROWS_PER_S: Goal(least=least), CPU: None}
    return Task(task.name, task.label, goals, task.run, (ONCE, peer))


def _run(settings: Settings) -> list[Table]:
    try:
        check_spark()
        jars: list[Path] = connector_jars()
    except Missing as missing:
        say(f"Spark cannot be measured: {missing}")
        return []
    from barnabas.pipeline import session

    rounds = settings.rounds or (2 if settings.quick else 5)
    with directory("disk") as base, running_sides([BARNABAS], base) as sides:
        spark = session("local[2]", options={
            "spark.jars": ",".join(map(str, jars)),
            "spark.security.credentials.kafka.enabled": "false",
            "spark.driver.memory": "2g",
        })  # fmt: skip
        try:
            wanted = [task for task in TASKS if settings.wants(task.name)]
            found = _measure(spark, sides, wanted, rounds, QUICK if settings.quick else 1.0)
        finally:
            spark.stop()
    own = [_beside(task, OURS, LEAST[task.name][0]) for task in wanted]
    theirs = [_beside(task, THEIRS, LEAST[task.name][1]) for task in wanted]
    return [
        Table("Beside our own at-least-once sink", _rows(found, own), peer="at least once"),
        Table("Beside Spark's own sink, which is at least once", _rows(found, theirs),
              peer=CONNECTOR),
    ]  # fmt: skip


SUITE = Suite(
    name="spark-once",
    title="Spark: the exactly-once sink",
    how=(
        "pyspark 4.2.0, local[2], 6 partitions, one broker of Barnabas on the same two cores. "
        "Four million rows of 100 B, and 800,000 of 1 KB, made by `range`, are written by two "
        "tasks; the time includes the commit. The three sinks in turns, 5 rounds after one "
        "warm-up round. A ratio is the median of the ratios of the rounds."
    ),
    parts=tuple(task.name for task in TASKS),
    run=_run,
)
