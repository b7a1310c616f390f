"""The exactly-once sink with Spark: a stream, a write, and a pipeline, on both brokers."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline import by_target_partition
from tests.pipeline.spark.once import committed
from tests.spark.specs import order, run, spec, write
from tests.spark.topics import create

PARTITIONS = 2


def forget_last_commit(checkpoint: Path) -> None:
    """As after a kill between the commit of the sink and Spark's commit log."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def test_a_stream_that_is_killed_after_its_commit_writes_no_row_twice(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    create(servers, f"{topic}.in", PARTITIONS)
    create(servers, topic, PARTITIONS)
    checkpoint = tmp_path / "checkpoint"
    options = {"kafka.bootstrap.servers": servers, "topic": topic}

    def stream() -> None:
        rows = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", f"{topic}.in")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 20)
            .load()
            .select("key", "value")
        )
        query = (
            by_target_partition(rows, options)
            .writeStream.format("barnabas")
            .options(**options)
            .option("exactlyOnce", "true")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    write(servers, f"{topic}.in", [(n, b"%d" % n) for n in range(30)])
    stream()
    assert committed(servers, topic, PARTITIONS) == list(range(30))
    shutil.copytree(checkpoint, tmp_path / "old")
    forget_last_commit(checkpoint)
    write(servers, f"{topic}.in", [(n, b"%d" % n) for n in range(30, 40)])
    stream()
    assert committed(servers, topic, PARTITIONS) == list(range(40))
    shutil.rmtree(checkpoint)
    (tmp_path / "old").rename(checkpoint)
    write(servers, f"{topic}.in", [(n, b"%d" % n) for n in range(40, 45)])
    with pytest.raises(Exception, match="was committed for other records"):
        stream()
    assert committed(servers, topic, PARTITIONS) == list(range(40))


def test_a_write_is_there_with_all_rows_or_with_none(spark: Any, servers: str, topic: str) -> None:
    create(servers, topic, PARTITIONS)
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "exactlyOnce": "true"}

    def save(expression: str) -> None:
        rows = spark.range(100, numPartitions=4).selectExpr(
            "cast(id as string) as key", f"cast({expression} as string) as value"
        )
        placed = by_target_partition(rows, options)
        placed.write.format("barnabas").options(**options).mode("append").save()

    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|by zero"):
        save("1 / (id - 77)")
    assert committed(servers, topic, PARTITIONS) == []
    save("id")
    assert committed(servers, topic, PARTITIONS) == list(range(100))


@pytest.mark.parametrize("mode", ["append", "update"])
def test_a_stream_pipeline_writes_each_row_once(
    spark: Any, servers: str, topic: str, tmp_path: Path, mode: str
) -> None:
    create(servers, topic, 1)
    create(servers, f"{topic}.out", PARTITIONS)
    sink = {"topic": f"{topic}.out", "exactly_once": True, "mode": mode}
    found = spec("stream", servers, topic, tmp_path, sink=sink, transform=f"{__name__}:numbers")
    write(servers, topic, [(n, order(n)) for n in range(20)])
    run(found, spark)
    forget_last_commit(tmp_path / "checkpoint" / "stream")
    run(found, spark)
    write(servers, topic, [(n, order(n)) for n in range(20, 30)])
    run(found, spark)
    assert committed(servers, f"{topic}.out", PARTITIONS) == list(range(30))


def numbers(rows: Any) -> Any:
    return rows.selectExpr("cast(id as string) as key", "cast(id as string) as value")
