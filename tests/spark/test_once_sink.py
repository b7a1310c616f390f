"""The exactly-once sink with Spark: a stream, a write, and a pipeline, on both brokers."""

import shutil
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from barnabas.pipeline import by_target_partition
from barnabas.pipeline.run.progress import Progress
from barnabas.pipeline.run.running import run_spec
from barnabas.pipeline.run.stopping import StopRequest
from tests.pipeline.spark.once import committed
from tests.process import BrokerProcess
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


@pytest.mark.parametrize("where", ["barnabas", "kafka"])
def test_without_a_word_in_the_spec_a_stream_writes_once_on_barnabas_only(
    request: pytest.FixtureRequest, spark: Any, topic: str, tmp_path: Path, where: str
) -> None:
    broker = request.getfixturevalue("our_broker" if where == "barnabas" else "apache_kafka")
    servers = broker.bootstrap_servers
    create(servers, topic, 1)
    create(servers, f"{topic}.out", 1)
    given: dict[str, Any] = {"sink": {"topic": f"{topic}.out"}}
    given["transform"] = f"{__name__}:numbers"
    found = spec("stream", servers, topic, tmp_path, **given)
    write(servers, topic, [(n, order(n)) for n in range(10)])
    said = run(found, spark)
    forget_last_commit(tmp_path / "checkpoint" / "stream")
    run(found, spark)
    if where == "barnabas":
        assert f"topic {topic}.out exactly once" in said[0]
        assert committed(servers, f"{topic}.out", 1) == list(range(10))
        off = spec("stream", servers, topic, tmp_path, **given, delivery="at_least_once")
        assert "at least once" in run(off, spark)[0]
    else:
        assert f"topic {topic}.out at least once: the brokers are not Barnabas" in said[0]
        assert committed(servers, f"{topic}.out", 1) == sorted([*range(10), *range(10)])


def numbers(rows: Any) -> Any:
    return rows.selectExpr("cast(id as string) as key", "cast(id as string) as value")


def test_a_pipeline_is_upgraded_between_two_batches(
    spark: Any, our_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """It is stopped while records arrive, and goes on with other code: each record once."""
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    create(servers, f"{topic}.out", 1)
    stop = StopRequest()
    given: dict[str, Any] = {"sink": {"topic": f"{topic}.out"}}
    given["transform"] = f"{__name__}:numbers"
    old = spec("stream", servers, topic, tmp_path, **given, run={"trigger": "100ms"})
    ended, written = Event(), list[int]()
    writing = Thread(target=write_until, args=(ended, servers, topic, written))
    writing.start()
    progress = Progress()
    progress.watch(lambda batch: stop.ask() if batch.rows else None)
    run_spec(old, spark=spark, say=lambda line: None, progress=progress, stop=stop)
    begun = len(committed(servers, f"{topic}.out", 1))
    ended.set()
    writing.join()
    assert 0 < begun < len(written)
    given["transform"] = f"{__name__}:larger_numbers"
    run(spec("stream", servers, topic, tmp_path, **given), spark)
    found = committed(servers, f"{topic}.out", 1)
    assert found == [*range(begun), *range(1000 + begun, 1000 + len(written))]


def write_until(ended: Event, servers: str, topic: str, written: list[int]) -> None:
    """One record after the other, the last one after the end."""
    is_last = False
    while not is_last:
        is_last = ended.wait(0.05)
        write(servers, topic, [(len(written), order(len(written)))])
        written.append(len(written))


def larger_numbers(rows: Any) -> Any:
    return numbers(rows.withColumn("id", rows["id"] + 1000))
