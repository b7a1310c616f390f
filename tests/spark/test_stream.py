"""Streams: the same batches as Spark's own source, and a query that is a consumer group."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.spark.topics import committed, create, delete, grow, produce
from tests.waiting import until

FORMATS = ("barnabas", "kafka")
WAIT_S = 240


def stream(spark: Any, name: str, servers: str, topic: str, **options: str) -> Any:
    return (
        spark.readStream.format(name)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .options(**{"startingOffsets": "earliest", **options})
        .load()
    )


def run(rows: Any, out: Path) -> list[Any]:
    """All there is, into Parquet; what Spark says of each batch."""
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(out / "rows"))
    )
    assert query.awaitTermination(300)
    return [progress for progress in query.recentProgress if progress.numInputRows]


def found(spark: Any, out: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(out / "rows")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


@pytest.mark.usefixtures("both_formats")
def test_both_make_the_same_batches_of_what_is_available(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    create(servers, topic)
    produce(servers, topic, range(301))
    batches = []
    for name in FORMATS:
        read = stream(spark, name, servers, topic, maxOffsetsPerTrigger="100")
        done = run(read, tmp_path / name)
        batches.append([(p.numInputRows, json.loads(p.sources[0].endOffset)) for p in done])
    assert batches[0] == batches[1]
    assert len(batches[0]) == 4
    assert found(spark, tmp_path / "barnabas") == found(spark, tmp_path / "kafka")


@pytest.mark.usefixtures("both_formats")
def test_both_begin_at_the_given_offsets(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    first_ms = int(time.time()) * 1000 - 3_600_000
    create(servers, topic)
    produce(servers, topic, range(90), first_ms=first_ms)
    ways: list[dict[str, str]] = [
        {
            "assign": json.dumps({topic: [0, 2]}),
            "startingOffsets": json.dumps({topic: {"0": 7, "2": -2}}),
            "minPartitions": "5",
            "includeHeaders": "true",
        },
        {"subscribePattern": f"^{topic}$", "startingTimestamp": str(first_ms + 30_000)},
    ]
    for number, options in enumerate(ways):
        rows, ends = [], []
        for name in FORMATS:
            reader = spark.readStream.format(name).option("kafka.bootstrap.servers", servers)
            out = tmp_path / f"{name}-{number}"
            done = run(reader.options(**options).load(), out)
            ends.append([json.loads(progress.sources[0].endOffset) for progress in done])
            read = spark.read.parquet(str(out / "rows")).orderBy("partition", "offset")
            rows.append(read.collect())
        assert rows[0] == rows[1]
        assert ends[0] == ends[1]
        assert len(rows[0]) == (53 if number == 0 else 60)


@pytest.mark.usefixtures("both_formats")
def test_what_comes_while_a_query_runs_or_is_stopped_is_read(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    """Partitions, and topics found by a pattern, of which there are none at first."""
    other, group = f"{topic}-too", f"group-of-{topic}"
    reads = {
        name: spark.readStream.format(name)
        .option("kafka.bootstrap.servers", servers)
        .options(subscribePattern=f"^{topic}(-too)?$", startingOffsets="latest")
        .options(**({"group.id": group} if name == "barnabas" else {}))
        .load()
        for name in FORMATS
    }
    queries = [
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / name / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start(str(tmp_path / name / "rows"))
        for name, rows in reads.items()
    ]

    def read() -> list[int]:
        assert not any(query.exception() for query in queries)
        return [sum(done.numInputRows for done in query.recentProgress) for query in queries]

    def begun() -> bool:
        """Both have seen that there is nothing yet."""
        return all(query.status["message"].startswith("Waiting for") for query in queries)

    try:
        until(begun, lambda: [query.status for query in queries], WAIT_S)
        create(servers, topic, 2)
        produce(servers, topic, [n for n in range(30) if n % 3 < 2])
        until(lambda: read() == [20, 20], read, WAIT_S)
        grow(servers, topic, 3)
        create(servers, other, 1)
        produce(servers, topic, range(30))
        produce(servers, other, [0, 3, 6])
        until(lambda: read() == [53, 53], read, WAIT_S)
    finally:
        for query in queries:
            query.stop()
    grow(servers, other, 2)
    produce(servers, other, [1, 4, 9])
    for name, rows in reads.items():
        run(rows, tmp_path / name)
    places = ["topic", "partition", "offset"]
    tables = [
        sorted(spark.read.parquet(str(tmp_path / name / "rows")).select(places).collect())
        for name in FORMATS
    ]
    assert tables[0] == tables[1]
    ends = {(topic, 0): 20, (topic, 1): 20, (topic, 2): 10, (other, 0): 4, (other, 1): 2}
    assert [tuple(row) for row in tables[0]] == [
        (*at, offset) for at, end in ends.items() for offset in range(end)
    ]
    assert committed(servers, group, topic) == [20, 20, 10]
    assert committed(servers, group, other, 2) == [4, 2]


@pytest.mark.usefixtures("both_formats")
def test_a_topic_that_is_gone_stops_a_query_and_ours_with_one_line(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    create(servers, topic)
    produce(servers, topic, range(30))
    for name in FORMATS:
        run(stream(spark, name, servers, topic), tmp_path / name)
    delete(servers, topic)
    create(servers, topic)
    produce(servers, topic, range(3))
    said = {}
    for name in FORMATS:
        with pytest.raises(StreamingQueryException, match="failOnDataLoss") as stopped:
            run(stream(spark, name, servers, topic), tmp_path / name)
        said[name] = str(stopped.value)
    assert "Set failOnDataLoss to false" in said["barnabas"]
    assert "Traceback" not in said["barnabas"]
    assert "\tat " not in said["barnabas"]


WRONG: list[dict[str, str]] = [
    {"subscribe": "there-is-none"},
    {"startingOffsets": "soon"},
    {"startingOffsets": '{"TOPIC":{"0":1}}'},
    {"endingOffsets": "latest"},
    {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
    {"assign": '{"TOPIC":[0]}'},
    {"kafka.enable.auto.commit": "true"},
    {"kafka.key.deserializer": "x"},
]


@pytest.mark.usefixtures("both_formats")
def test_both_refuse_the_same_streams_and_ours_says_so_in_one_line(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    create(servers, topic)
    produce(servers, topic, range(3))
    for number, options in enumerate(WRONG):
        given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
        for name in reversed(FORMATS):
            with pytest.raises(Exception, match=r".") as refused:
                run(stream(spark, name, servers, topic, **given), tmp_path / f"{name}-{number}")
        assert "Traceback" not in str(refused.value), given
        assert "\tat " not in str(refused.value), given


def test_a_query_is_a_group(spark: Any, servers: str, topic: str, tmp_path: Path) -> None:
    create(servers, topic)
    produce(servers, topic, range(90))
    group = f"group-of-{topic}"
    read = stream(
        spark, "barnabas", servers, topic, maxOffsetsPerTrigger="30", **{"group.id": group}
    )
    run(read, tmp_path)
    assert committed(servers, group, topic) == [30, 30, 30]


@pytest.mark.usefixtures("both_formats")
def test_a_listener_makes_a_group_of_a_query_of_sparks_own_source(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    from barnabas.pipeline import GroupListener

    create(servers, topic)
    produce(servers, topic, range(60))
    group = f"group-of-{topic}"
    listener = GroupListener(servers, group=group)
    spark.streams.addListener(listener)
    try:
        run(stream(spark, "kafka", servers, topic), tmp_path)
        deadline = time.monotonic() + 240
        while committed(servers, group, topic) != [20, 20, 20]:
            assert time.monotonic() < deadline, "the listener has not committed"
            time.sleep(0.1)
    finally:
        spark.streams.removeListener(listener)


def test_every_row_of_a_stream_is_written_in_order(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    copy = f"{topic}-copy"
    create(servers, topic)
    create(servers, copy)
    produce(servers, topic, range(300))
    read = stream(
        spark, "barnabas", servers, topic, maxOffsetsPerTrigger="90", includeHeaders="true"
    )
    query = (
        read.select("key", "value", "headers", "partition", "timestamp")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", copy)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    same = ["partition", "offset", "key", "value", "headers", "timestamp"]
    tables = []
    for name in (topic, copy):
        rows = (
            spark.read.format("barnabas")
            .option("kafka.bootstrap.servers", servers)
            .options(subscribe=name, includeHeaders="true")
            .load()
            .select(same)
            .collect()
        )
        tables.append(sorted(rows, key=lambda row: (row.partition, row.offset)))
    assert tables[0] == tables[1]


def test_a_batch_that_failed_is_read_again_and_nothing_is_left_out(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    """The query begins at the end of the topic, fails in its first batch, and starts again."""
    from pyspark.errors import StreamingQueryException

    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    begin = {"startingOffsets": "latest", "group.id": f"group-of-{topic}"}
    seen: list[int] = []
    failing = True

    def take(rows: Any, batch: int) -> None:
        numbers = [row.offset for row in rows.select("offset").collect()]
        if failing and numbers:
            raise RuntimeError("the sink is away")
        seen.extend(numbers)

    def start() -> Any:
        read = stream(spark, "barnabas", servers, topic, **begin)
        writer = read.writeStream.foreachBatch(take)
        return writer.option("checkpointLocation", str(tmp_path)).start()

    query = start()
    deadline = time.monotonic() + 240
    while committed(servers, f"group-of-{topic}", topic, 1) != [0]:
        assert time.monotonic() < deadline, "the query has not begun"
    producer_rows = [0, 3, 6]
    produce(servers, topic, producer_rows)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(300)
    produce(servers, topic, [9])
    failing = False
    query = start()
    while len(seen) < 4:
        assert time.monotonic() < deadline + 240, seen
        assert query.exception() is None
        time.sleep(0.05)
    query.stop()
    assert sorted(seen) == [0, 1, 2, 3]
