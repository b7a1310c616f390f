"""Pipelines as a user runs them: a spec, and what is in topics and files afterwards."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.pipeline.errors import from_spark
from tests.process import running_broker
from tests.spark.specs import FIRST_MS, SCHEMA, order, run, spec, write
from tests.spark.topics import committed, create, grow, produce
from tests.waiting import WAIT_S


def read(servers: str, topic: str) -> list[tuple[bytes, dict[str, str]]]:
    """Values and headers of all there is."""
    options = {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer(options)
    found = []
    try:
        numbers = list(consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        ended = 0
        while ended < len(numbers):
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error():
                ended += 1
                continue
            given: Any = message.headers() or []
            headers = {name: (value or b"").decode(errors="replace") for name, value in given}
            found.append((message.value() or b"", headers))
    finally:
        consumer.close()
    return found


def test_a_lake_has_every_record_once_however_often_it_runs(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    import pyarrow.dataset

    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    lake = tmp_path / "lake"
    found = spec("lake", servers, topic, tmp_path, sink={"path": str(lake)})
    day = 86_400
    write(servers, topic, [(n * day // 50, order(n)) for n in range(100)])
    run(found, spark)
    write(servers, topic, [(n * day // 50, order(n)) for n in range(100, 200)])
    run(found, spark)
    run(found, spark)
    table = spark.read.parquet(str(lake))
    assert sorted(row.id for row in table.collect()) == list(range(200))
    assert {"_topic", "_partition", "_offset", "_ts", "date"} <= set(table.columns)
    assert [r.id for r in table.orderBy("_offset").collect()] == list(range(200))
    assert committed(servers, f"lake-{topic}", topic, 1) == [200]
    # Anyone reads it, and no file is tiny for the sake of a task.
    plain = pyarrow.dataset.dataset(str(lake), partitioning="hive")
    assert plain.count_rows() == 200
    assert len(plain.files) == 2 * 2  # batches, days of each


def test_a_batch_that_spark_repeats_is_in_the_lake_once(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    """Killed after the rename, before Spark noted that the batch is done; and before the rename."""
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    lake = tmp_path / "lake"
    found = spec("lake", servers, topic, tmp_path, sink={"path": str(lake)})
    write(servers, topic, [(n, order(n)) for n in range(50)])
    run(found, spark)
    for done in (tmp_path / "checkpoint" / "lake" / "commits").iterdir():
        done.unlink()
    write(servers, topic, [(n, order(n)) for n in range(50, 60)])
    run(found, spark)
    assert spark.read.parquet(str(lake)).count() == 60
    (batch,) = [path for path in lake.iterdir() if path.name.endswith("-000000001")]
    batch.rename(lake / "_unfinished" / f"{batch.name.removeprefix('batch=')}-killed")
    (tmp_path / "checkpoint" / "lake" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "lake" / "commits" / ".1.crc").unlink(missing_ok=True)
    run(found, spark)
    assert spark.read.parquet(str(lake)).count() == 60
    assert not any((lake / "_unfinished").iterdir())


def test_columns_that_come_later_are_merged(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    sink = {"path": str(tmp_path / "lake")}
    write(servers, topic, [(0, order(1))])
    run(spec("lake", servers, topic, tmp_path, sink=sink), spark)
    write(servers, topic, [(1, b'{"id":2,"customer":0,"amount":1,"note":"new"}')])
    more = {"schema": f"{SCHEMA}, note string"}
    run(spec("lake", servers, topic, tmp_path, sink=sink, source=more), spark)
    table = spark.read.option("mergeSchema", "true").parquet(sink["path"])
    assert [(r.id, r.note) for r in table.orderBy("id").collect()] == [(1, None), (2, "new")]


def test_bad_rows_are_tried_again_then_die_and_the_counts_add_up(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    errors = {"retries": 2, "retry_topic": f"{topic}.retry", "dlq": f"{topic}.dlq"}
    found = spec(
        "lake", servers, topic, tmp_path, sink={"path": str(tmp_path / "lake")}, errors=errors
    )
    write(servers, topic, [(n, b"poison" if n % 10 == 3 else order(n)) for n in range(100)])
    assert run(found, spark)[0].startswith(f"lake-{topic}.lake: batch 0, 100 rows, ")
    tried = read(servers, f"{topic}.retry")
    assert len(tried) == 10
    assert {headers["barnabas.attempts"] for _, headers in tried} == {"1"}
    assert all(headers["barnabas.cause"] for _, headers in tried)
    # Killed when its bad rows were written, before the batch was in the table: it is repeated.
    (batch,) = (tmp_path / "lake").glob("batch=*")
    batch.rename(tmp_path / "killed")
    for done in (tmp_path / "checkpoint" / "lake" / "commits").iterdir():
        done.unlink()
    run(found, spark)
    assert len(read(servers, f"{topic}.retry")) == 20
    # Anyone may write to a retry topic.
    producer = Producer({"bootstrap.servers": servers})
    rubbish: Any = [
        ("barnabas.attempts", b"-\xff"),
        ("barnabas.origin.topic", b"/\xff"),
        ("x", None),
    ]
    producer.produce(f"{topic}.retry", order(1000), headers=rubbish)
    assert producer.flush(WAIT_S) == 0
    assert read(servers, f"{topic}.dlq") == []
    run(found, spark)
    run(found, spark)
    dead = read(servers, f"{topic}.dlq")
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 91
    assert len(read(servers, f"{topic}.retry")) == 21
    assert len(dead) == 10
    assert {value for value, _ in dead} == {b"poison"}
    assert sorted(int(h["barnabas.origin.offset"]) for _, h in dead) == list(range(3, 100, 10))
    assert {h["barnabas.origin.topic"] for _, h in dead} == {topic}
    assert {h["barnabas.attempts"] for _, h in dead} == {"3"}


def test_a_row_that_a_new_schema_makes_good_is_not_lost_between_two_queries(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream has a query for bad rows: neither may think that the other has taken a row."""
    servers = our_broker.bootstrap_servers
    out = f"{topic}-out"
    create(servers, topic, 1)
    create(servers, out, 1)
    monkeypatch.syspath_prepend(str(tmp_path))
    errors = {"retries": 1, "retry_topic": f"{topic}.retry", "dlq": f"{topic}.dlq"}
    (tmp_path / "steps.py").write_text(
        "from pyspark.sql import functions as f\n"
        "def told(rows):\n"
        "    return rows.select(f.to_json(f.struct('id', 'amount')).alias('value'))\n"
    )
    given: dict[str, Any] = {"transform": "steps:told", "sink": {"topic": out}, "errors": errors}
    write(servers, topic, [(0, order(0)), (1, b"poison"), (2, b'{"id":2,"amount":"2.50"}')])
    run(spec("stream", servers, topic, tmp_path, **given), spark)
    assert [json.loads(value)["id"] for value, _ in read(servers, out)] == [0]
    assert len(read(servers, f"{topic}.retry")) == 2
    # The stream was killed before its only batch had ended, and the schema is corrected.
    for done in (tmp_path / "checkpoint" / "stream" / "commits").iterdir():
        done.unlink()
    given["source"] = {"schema": "id long, amount string"}
    run(spec("stream", servers, topic, tmp_path, **given), spark)
    assert {json.loads(value)["id"] for value, _ in read(servers, out)} == {0, 2}
    assert [value for value, _ in read(servers, f"{topic}.dlq")] == [b"poison"]


def test_a_bad_row_without_a_place_to_go_ends_the_pipeline_with_one_line(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(0, order(0)), (1, b"poison")])
    with pytest.raises(Exception, match=r"offset 1: ") as caught:
        run(spec("lake", servers, topic, tmp_path, sink={"path": str(tmp_path / "lake")}), spark)
    line = str(from_spark(caught.value))
    assert line is not None
    assert line.startswith(f"{topic}-0, offset 1: ")
    assert line.endswith("set errors.dlq to continue without such rows")


def test_late_records_are_counted_in_their_minute(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    out = f"{topic}-counts"
    create(servers, topic, 1)
    create(servers, out, 1)
    found = spec(
        "stream", servers, topic, tmp_path,
        transform="examples.late_counts:per_minute", sink={"topic": out},
    )  # fmt: skip
    write(servers, topic, [(n, order(n, amount=2)) for n in range(0, 120, 10)])
    write(servers, topic, [(5, order(12, amount=2))])
    run(found, spark)
    assert read(servers, out) == []
    write(servers, topic, [(2_000, order(13))])
    run(found, spark)
    write(servers, topic, [(6, order(14)), (2_001, order(15))])  # too late, and not
    run(found, spark)
    rows = [json.loads(value) for value, _ in read(servers, out)]
    assert sorted((row["orders"], row["amount"]) for row in rows) == [(6, 12), (7, 14)]


def test_an_order_that_was_sent_twice_is_written_once(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    out = f"{topic}-once"
    create(servers, topic, 1)
    create(servers, out, 1)
    found = spec(
        "stream", servers, topic, tmp_path,
        transform="examples.no_duplicates:once", sink={"topic": out},
    )  # fmt: skip
    write(servers, topic, [(n, order(n % 20)) for n in range(40)])
    run(found, spark)
    write(servers, topic, [(n, order(n % 20 + 10)) for n in range(40, 60)])
    run(found, spark)
    counts = Counter(json.loads(value)["id"] for value, _ in read(servers, out))
    assert counts == dict.fromkeys(range(30), 1)


def test_a_mirror_on_spark_copies_all_and_goes_on(
    spark: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    """From a broker of ours and from Apache Kafka's, into one of ours."""
    create(servers, topic, 2)
    produce(servers, topic, [n for n in range(300) if n % 3 < 2], first_ms=FIRST_MS)
    with running_broker(tmp_path / "target") as target:
        sink = {"servers": target.bootstrap_servers}
        found = spec("mirror", servers, topic, tmp_path, sink=sink)
        assert run(found, spark)[0].startswith(f"mirror-{topic}: batch 0, 200 rows, ")
        grow(servers, topic, 3)
        produce(servers, topic, range(300, 600), first_ms=FIRST_MS)
        run(found, spark)

        def rows(where: str) -> list[Any]:
            loaded = spark.read.format("barnabas").option("kafka.bootstrap.servers", where)
            loaded = loaded.option("subscribe", topic).option("includeHeaders", "true").load()
            # In the target, the ends of transactions have offsets too.
            return sorted(map(str, loaded.drop("offset").collect()))

        assert rows(target.bootstrap_servers) == rows(servers)
        assert len(rows(servers)) == 500
        assert committed(servers, f"mirror-{topic}", topic) == [200, 200, 100]


def test_a_mirror_into_kafka_is_the_same(
    spark: Any, our_broker: Any, apache_kafka: Any, topic: str, tmp_path: Path
) -> None:
    create(our_broker.bootstrap_servers, topic, 3)
    produce(our_broker.bootstrap_servers, topic, range(300), options={"compression.type": "lz4"})
    sink = {"servers": apache_kafka.bootstrap_servers}
    run(spec("mirror", our_broker.bootstrap_servers, topic, tmp_path, sink=sink), spark)
    values = Counter(value for value, _ in read(apache_kafka.bootstrap_servers, topic))
    assert values == Counter(value for value, _ in read(our_broker.bootstrap_servers, topic))
    assert values.total() == 300
