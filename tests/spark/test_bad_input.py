"""Rows, times and paths that once stopped a lake, or were silently wrong in it."""

import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.process import running_broker
from tests.spark.specs import order, run, spec, write
from tests.spark.test_lake import delta, keyed, rows
from tests.spark.test_once import Drivers
from tests.spark.test_pipelines import read
from tests.spark.topics import create
from tests.waiting import until

WAIT_S = 240


def times(servers: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "times"})
    try:
        numbers = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        found = [consumer.poll(WAIT_S) for _ in range(count)]
        return [message.timestamp()[1] for message in found if message is not None]
    finally:
        consumer.close()


def test_bad_rows_of_old_records_are_not_old_and_return_with_the_time_they_had(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    """Retention would delete a letter with the time of its record at once. The row is bad because
    a field is missing whose column is NOT NULL.
    """
    servers = our_broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    forever = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(topic, 1, 1, config=forever)])[topic].result(WAIT_S)
    errors = {"dlq": f"{topic}.dlq", "retries": 1, "retry_topic": f"{topic}.retry"}
    given: dict[str, Any] = {"sink": {"path": str(tmp_path / "lake")}, "errors": errors}
    year_s = 365 * 86_400
    write(servers, topic, [(-year_s, order(1)), (-year_s, b'{"id": 2}')])
    strict = {"schema": "id long, amount long not null"}
    run(spec("lake", servers, topic, tmp_path, source=strict, **given), spark)
    ((value, headers),) = read(servers, f"{topic}.retry")
    assert value == b'{"id": 2}'
    assert "amount: missing or null" in headers["barnabas.cause"]
    (written_ms,) = times(servers, f"{topic}.retry", 1)
    first_ms = int(headers["barnabas.origin.timestamp"])
    assert written_ms - first_ms > 360 * 86_400_000
    lenient = {"schema": "id long, amount long"}
    run(spec("lake", servers, topic, tmp_path, source=lenient, **given), spark)
    found = spark.read.parquet(str(tmp_path / "lake")).selectExpr("id", "unix_millis(_ts) as ms")
    assert sorted((row.id, row.ms) for row in found.collect()) == [(1, first_ms), (2, first_ms)]


def test_a_deleted_key_stays_deleted_when_an_older_row_is_tried_again(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("deltalake")
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    errors = {"dlq": f"{topic}.dlq", "retries": 2, "retry_topic": f"{topic}.retry"}
    given: dict[str, Any] = {"sink": {"keep": "latest"}, "errors": errors}
    bad = '{"id": 1, "n": "x"}'
    keyed(servers, topic, [("a", bad), ("b", bad), ("c", bad), ("a", None), ("b", '{"id": 2}')])
    run(delta(servers, topic, tmp_path, source={"schema": "id long, n long"}, **given), spark)
    assert len(read(servers, f"{topic}.retry")) == 3
    run(delta(servers, topic, tmp_path, source={"schema": "id long"}, **given), spark)
    assert rows(tmp_path, "_key", "id") == [(b"b", 2), (b"c", 1)]
    # A newer row brings the key back.
    keyed(servers, topic, [("a", '{"id": 3}'), ("b", None), ("c", None)])
    run(delta(servers, topic, tmp_path, source={"schema": "id long"}, **given), spark)
    assert rows(tmp_path, "_key", "id") == [(b"a", 3)]


@pytest.mark.parametrize("format_", ["parquet", "latest"])
def test_paths_are_names_letter_by_letter(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path, format_: str
) -> None:
    deltalake = pytest.importorskip("deltalake")
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    odd = tmp_path / ("a [1] b%20c:d*" if format_ == "parquet" else "a b%c:d*")
    sink = {"path": f"file:{odd}/lake"}
    if format_ == "latest":
        sink |= {"format": "delta", "keep": "latest"}
    found = spec(
        "lake", servers, topic, tmp_path, sink=sink, run={"checkpoint": f"{odd}/checkpoint"},
        errors={"dlq": f"{topic}.dlq"},
    )  # fmt: skip
    for number in (0, 2):
        keyed(servers, topic, [("a", order(number).decode()), ("b", "bad")])
        run(found, spark)
    # The last batch is repeated: it is found, and so are its letters.
    for done in (odd / "checkpoint" / "lake" / "commits").iterdir():
        done.unlink()
    run(found, spark)
    if format_ == "parquet":
        parts = list((odd / "lake").glob("batch=*/date=*/*.parquet"))
        assert len(parts) == 2
    else:
        assert deltalake.DeltaTable(str(odd / "lake")).to_pyarrow_table()["id"].to_pylist() == [2]
    assert len(read(servers, f"{topic}.dlq")) == 2


def test_a_time_beyond_the_calendar_does_not_make_a_table_unreadable(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    deltalake = pytest.importorskip("deltalake")
    both = Drivers(spark, tmp_path / "lake", "delta")
    later = "timestamp_micros(if(offset % 2 = 0, 9223372036854775000, -9223372036854775000))"
    shifted = f.expr(f"if(offset < 20, {later}, timestamp)")
    both.rows = both.rows.withColumn("timestamp", shifted)
    both.write(both.driver(), 0, 0, 30)
    table = deltalake.DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()
    found = {row["id"]: row for row in table.to_pylist()}
    assert len(found) == 30
    assert {(found[n]["_ts"], found[n]["date"]) for n in range(20)} == {(None, None)}
    assert {found[n]["date"].isoformat() for n in range(20, 30)} == {"2023-11-14"}


def test_a_continuous_pipeline_goes_on_when_its_broker_is_back(
    spark: Any, topic: str, tmp_path: Path
) -> None:
    from barnabas.pipeline.run.running import run_spec
    from barnabas.pipeline.run.stopping import StopRequest

    lines: list[str] = []
    failed: list[Exception] = []
    stop = StopRequest()
    options = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "2000"}

    def go() -> None:
        try:
            run_spec(found, spark=spark, say=lines.append, stop=stop)
        except Exception as problem:
            failed.append(problem)

    def wait_for(text: str) -> None:
        until(lambda: any(text in line for line in lines) or failed, lambda: (lines, failed))
        assert not failed

    thread = Thread(target=go)
    with running_broker(tmp_path / "broker") as broker:
        servers = broker.bootstrap_servers
        found = spec(
            "lake", servers, topic, tmp_path, sink={"path": str(tmp_path / "lake")},
            run={"trigger": "200ms", "give_up_after": "10m"}, source={"options": options},
        )  # fmt: skip
        create(servers, topic, 1)
        write(servers, topic, [(0, order(0))])
        thread.start()
        wait_for("batch 0, 1 rows")
        broker.stop()
        wait_for("trying again in 1 s")
        broker.start()
        write(servers, topic, [(1, order(1))])
        wait_for("batch 1, 1 rows")
        stop.ask()
        thread.join(WAIT_S)
    assert not thread.is_alive()
    assert not failed
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 2
    assert json.dumps(lines).count("batch 1, 1 rows") == 1
