"""The suite "spark-once": the exactly-once sink beside our own at-least-once sink, and beside
Spark's own Kafka sink, which is at least once.

All three write the same rows to the same broker of Barnabas, in turns.
"""

from collections.abc import Callable
from typing import Any

from bench.figures import Goal, Sample, Table
from bench.sides import BARNABAS, Side, directory, running_sides
from bench.spark_tasks import (
    CONNECTOR,
    CPU,
    OURS,
    QUICK,
    ROWS_PER_S,
    THEIRS,
    Task,
    measure,
    rounds_of,
    rows_of,
    spark_session,
    write_rows,
)
from bench.suite import Settings, Suite

ONCE = "exactly once"


def _write(size: int) -> Callable[[Any, Side, str, float], Sample]:
    def run(spark: Any, side: Side, name: str, scale: float) -> Sample:
        if name == ONCE:
            return write_rows(spark, side, OURS, size, scale, exactlyOnce="true")
        return write_rows(spark, side, name, size, scale)

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
    with (
        spark_session() as spark,
        directory("disk") as base,
        running_sides([BARNABAS], base) as sides,
    ):
        if spark is None:
            return []
        wanted = [task for task in TASKS if settings.wants(task.name)]
        scale = QUICK if settings.quick else 1.0
        found = measure(spark, sides, wanted, rounds_of(settings), scale)
    own = [_beside(task, OURS, LEAST[task.name][0]) for task in wanted]
    theirs = [_beside(task, THEIRS, LEAST[task.name][1]) for task in wanted]
    return [
        Table("Beside our own at-least-once sink", rows_of(found, own), peer="at least once"),
        Table("Beside Spark's own sink, which is at least once", rows_of(found, theirs),
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
