"""Batch reads and writes: `format("barnabas")` and Spark's `format("kafka")` agree to the row."""

import json
import time
from typing import Any

import pytest

from tests.spark.topics import create, cut, produce
from tests.waiting import WAIT_S

pytestmark = pytest.mark.usefixtures("both_formats")
FORMATS = ("barnabas", "kafka")
TIMES_FROM = int(time.time()) * 1000 - 3_600_000


def load(spark: Any, name: str, servers: str, options: dict[str, str]) -> Any:
    return (
        spark.read.format(name).option("kafka.bootstrap.servers", servers).options(**options).load()
    )


def rows(spark: Any, name: str, servers: str, options: dict[str, str]) -> list[Any]:
    found = load(spark, name, servers, options).collect()
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def agreed(spark: Any, servers: str, options: dict[str, str]) -> list[Any]:
    ours, theirs = (rows(spark, name, servers, options) for name in FORMATS)
    assert ours == theirs
    return ours


@pytest.fixture(scope="session")
def filled() -> dict[str, str]:
    """Topics by server, written once."""
    return {}


@pytest.fixture
def numbers(servers: str, filled: dict[str, str]) -> str:
    """A topic of 300 records over three partitions, a second between each and the next."""
    if servers not in filled:
        create(servers, "numbers")
        produce(servers, "numbers", range(300), first_ms=TIMES_FROM)
        filled[servers] = "numbers"
    return filled[servers]


def test_every_row_and_column_is_the_same(spark: Any, servers: str, numbers: str) -> None:
    options = {"subscribe": numbers, "includeHeaders": "true"}
    schemas = [load(spark, name, servers, options).schema for name in FORMATS]
    assert schemas[0] == schemas[1]
    found = agreed(spark, servers, options)
    assert len(found) == 300
    assert found[0].headers is None
    assert found[1].key == b"key 3"
    assert found[1].headers[1].value is None


def test_batches_of_every_codec_are_read(spark: Any, servers: str, topic: str) -> None:
    create(servers, topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(servers, topic, range(100), options={"compression.type": codec})
    assert len(agreed(spark, servers, {"subscribe": topic})) == 500


def test_topics_by_pattern_and_partitions_by_name(spark: Any, servers: str, topic: str) -> None:
    for name in (f"{topic}-a", f"{topic}-b"):
        create(servers, name)
        produce(servers, name, range(9))
    assert len(agreed(spark, servers, {"subscribePattern": f"{topic[5:]}-[ab]"})) == 18
    assigned = json.dumps({f"{topic}-a": [0, 2], f"{topic}-b": [1]})
    assert len(agreed(spark, servers, {"assign": assigned})) == 9


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"numbers":{"0":10,"1":-2,"2":99}}'},
        {
            "startingOffsets": '{"numbers":{"0":10,"1":20,"2":30}}',
            "endingOffsets": '{"numbers":{"0":11,"1":-1,"2":30}}',
        },
        {"startingTimestamp": str(TIMES_FROM + 100_000),
         "endingTimestamp": str(TIMES_FROM + 200_500)},
        {"startingOffsetsByTimestamp": json.dumps(
            {"numbers": {"0": 1, "1": TIMES_FROM + 30_000, "2": TIMES_FROM + 31_000}})},
        {"startingTimestamp": str(TIMES_FROM + 999_000_000),
         "startingOffsetsByTimestampStrategy": "latest"},
        {"endingOffsets": "latest", "startingOffsets": "earliest"},
    ],
    ids=["from", "from-to", "time", "times", "no-such-time", "ends"],
)  # fmt: skip
def test_both_read_between_the_same_ends(
    spark: Any, servers: str, numbers: str, options: dict[str, str]
) -> None:
    agreed(spark, servers, {"subscribe": numbers, **options})


def tasks(spark: Any, name: str, servers: str, options: dict[str, str]) -> list[Any]:
    """Partition, first and last offset of what each task reads."""
    from pyspark.sql import functions as f

    read = load(spark, name, servers, options)
    ranges = read.groupBy(f.spark_partition_id(), "partition").agg(f.min("offset"), f.max("offset"))
    return sorted((row[1], row[2], row[3]) for row in ranges.collect())


def test_a_hot_partition_is_read_by_many_tasks(spark: Any, servers: str, numbers: str) -> None:
    uneven = '{"numbers":{"0":95,"1":0,"2":50}}'
    options = {"subscribe": numbers, "minPartitions": "8", "startingOffsets": uneven}
    ours, theirs = (tasks(spark, name, servers, options) for name in FORMATS)
    assert ours == theirs
    assert len(ours) == 8
    # Spark's own leaves partitions whole here unless minPartitions is set too.
    most = tasks(spark, "barnabas", servers, {"subscribe": numbers, "maxRecordsPerPartition": "40"})
    assert most[:3] == [(0, 0, 32), (0, 33, 65), (0, 66, 99)]
    assert len(most) == 9


WRONG: list[dict[str, str]] = [
    {"subscribe": "there-is-none"},
    {},
    {"subscribe": "numbers", "assign": "{}"},
    {"assign": "numbers"},
    {"subscribe": "numbers", "startingOffsets": "latest"},
    {"subscribe": "numbers", "startingOffsets": '{"numbers":{"0":1}}'},
    {"subscribe": "numbers", "startingOffsets": "{"},
    {"subscribe": "numbers", "startingOffsets": '{"numbers":{"0":500,"1":0,"2":0}}'},
    {"subscribe": "numbers", "startingTimestamp": "soon"},
    {"subscribe": "numbers", "startingTimestamp": str(TIMES_FROM + 999_000_000)},
    {"subscribe": "numbers", "kafka.auto.offset.reset": "earliest"},
    {"subscribe": "numbers", "minPartitions": "-1"},
]


def test_both_refuse_the_same_and_ours_says_so_in_one_line(
    spark: Any, servers: str, numbers: str
) -> None:
    from pyspark.errors import AnalysisException

    for options in WRONG:
        with pytest.raises(Exception, match=r"."):
            load(spark, "kafka", servers, {**options, "fetchOffset.numRetries": "1"}).collect()
        with pytest.raises(AnalysisException) as ours:
            load(spark, "barnabas", servers, options).collect()
        said = str(ours.value)
        assert "Traceback" not in said
        assert "\tat " not in said
        assert len(said.strip().splitlines()) <= 2, said  # Spark adds its SQLSTATE


def test_deleted_records_are_an_error_by_default(spark: Any, servers: str, topic: str) -> None:
    create(servers, topic)
    produce(servers, topic, range(30))
    cut(servers, topic, 0, 6)
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":2,"1":0,"2":0}}}}'}
    for name in FORMATS:
        with pytest.raises(Exception, match=r"lost|missed|not available|out of range"):
            rows(spark, name, servers, options)
    left = agreed(spark, servers, {**options, "failOnDataLoss": "false"})
    assert len(left) == 24


def test_both_write_the_same_rows_to_the_same_partitions(
    spark: Any, servers: str, topic: str
) -> None:
    from pyspark.sql import functions as f

    numbers = spark.range(2000)
    text = f.encode(f.col("id").cast("string"), "utf-8").alias("value")
    data = numbers.select(
        f.when(f.col("id") % 10 > 0, f.concat(f.lit("key "), "id")).alias("key"),
        f.when(f.col("id") % 11 > 0, f.encode(f.repeat("id", 9), "utf-8")).alias("value"),
        f.when(f.col("id") % 3 == 0, f.array(f.struct(f.lit("h").alias("key"), text))).alias(
            "headers"
        ),
        f.lit("ignored").alias("more"),
    )  # fmt: skip
    written = []
    for name in FORMATS:
        create(servers, f"{topic}-{name}")
        sink = data.write.format(name).option("kafka.bootstrap.servers", servers)
        sink.option("topic", f"{topic}-{name}").mode("append").save()
        options = {"subscribe": f"{topic}-{name}", "includeHeaders": "true"}
        found = rows(spark, "kafka", servers, options)
        keyed = sorted((row.key, row.value, row.partition, row.headers) for row in found if row.key)
        plain = sorted((row.value or b"", row.headers or []) for row in found if not row.key)
        written.append((keyed, plain))
    assert written[0] == written[1]
    assert len(written[0][0]) == 1800


def test_a_sink_takes_topic_partition_and_timestamp_from_columns(
    spark: Any, servers: str, topic: str
) -> None:
    from pyspark.sql import functions as f

    for name in (f"{topic}-0", f"{topic}-1"):
        create(servers, name)
    data = spark.range(60).select(
        f.col("id").cast("string").alias("value"),
        f.concat(f.lit(f"{topic}-"), (f.col("id") % 2).cast("string")).alias("topic"),
        f.when(f.col("id") % 5 > 0, (f.col("id") % 3).cast("int")).alias("partition"),
        f.timestamp_millis(f.lit(TIMES_FROM) + f.col("id")).alias("timestamp"),
    )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        sink = data.write.format("barnabas").option("kafka.bootstrap.servers", servers)
        sink.option("kafka.compression.type", codec).mode("append").save()
    found = rows(spark, "kafka", servers, {"subscribe": f"{topic}-0,{topic}-1"})
    assert len(found) == 300
    for row in found:
        number = int(row.value)
        assert row.topic == f"{topic}-{number % 2}"
        assert number % 5 == 0 or row.partition == number % 3
        assert int(row.timestamp.timestamp() * 1000) == TIMES_FROM + number


def test_both_refuse_the_same_rows_and_ours_says_so_in_one_line(spark: Any, servers: str) -> None:
    from pyspark.sql import functions as f

    numbers = spark.range(3)
    text = numbers.select(f.col("id").cast("string").alias("value"))
    wrong = {
        "a column named value is needed": (numbers, {"topic": "t"}),
        "no topic: set the option topic": (text, {}),
        "column value must be string or binary": (
            numbers.select(f.col("id").alias("value")), {"topic": "t"},
        ),
        "a row has no topic": (text.withColumn("topic", f.lit(None).cast("string")), {}),
        "a row is for partition 77 of topic 'numbers-out'": (
            text.withColumn("partition", f.lit(77)), {"topic": "numbers-out"},
        ),
        "bootstrap.servers is missing": (text, {"topic": "t"}),
        "a topic can only be appended to": (text, {"topic": "t", "mode": "overwrite"}),
        "column headers must be array<struct<key:string,value:binary>>": (
            text.withColumn("headers", f.lit("h")), {"topic": "t", "includeHeaders": "true"},
        ),
    }  # fmt: skip
    for said, (data, options) in wrong.items():
        mode = options.pop("mode", "append")
        theirs = data.write.format("kafka").options(**options)
        if "bootstrap" not in said:
            theirs = theirs.option("kafka.bootstrap.servers", servers)
        soon = {
            "kafka.delivery.timeout.ms": "3000",
            "kafka.request.timeout.ms": "2000",
            "kafka.max.block.ms": "3000",  # it waits a minute for a partition that is not there
        }
        with pytest.raises(Exception, match=r"."):
            theirs.options(**soon).mode(mode).save()
        sink = data.write.format("barnabas").options(**options)
        if "bootstrap" not in said:
            sink = sink.option("kafka.bootstrap.servers", servers)
        with pytest.raises(Exception, match=said) as refused:
            sink.mode(mode).save()
        assert "Traceback" not in str(refused.value)
        assert "\tat " not in str(refused.value)


def test_a_schema_in_place_of_ours_is_refused(spark: Any, our_broker: Any) -> None:
    reader = spark.read.format("barnabas").schema("id long").option("subscribe", "t")
    servers = our_broker.bootstrap_servers
    with pytest.raises(Exception, match=r"leave schema\(\) out"):
        reader.option("kafka.bootstrap.servers", servers).load().collect()


def test_no_broker_is_said_at_once(spark: Any) -> None:
    patient = {"kafka.default.api.timeout.ms": "850000"}  # if it waited for one, for so long
    begun = time.monotonic()
    with pytest.raises(Exception, match=r"no broker at 127\.0\.0\.1:1") as refused:
        load(spark, "barnabas", "127.0.0.1:1", {"subscribe": "t", **patient}).collect()
    assert "Traceback" not in str(refused.value)
    assert time.monotonic() - begun < WAIT_S * 2


def test_only_committed_records_are_read_if_wanted(spark: Any, servers: str, topic: str) -> None:
    """The last task has nothing but aborted records and markers."""
    from confluent_kafka import Producer

    create(servers, topic, 1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(30)
    for outcome in ("commit", "abort", "commit", "abort"):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, f"{outcome} {number}".encode())
        producer.flush(WAIT_S)
        if outcome == "commit":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    options = {"subscribe": topic}
    assert len(agreed(spark, servers, options)) == 20
    committed = {**options, "kafka.isolation.level": "read_committed"}
    found = agreed(spark, servers, committed)
    assert [row.value for row in found] == [f"commit {n}".encode() for n in range(5)] * 2
    ends = {**committed, "startingOffsets": f'{{"{topic}": {{"0": 18}}}}'}
    assert agreed(spark, servers, ends) == []


def test_filters_are_pushed_down_and_give_the_same_rows(
    spark: Any, servers: str, numbers: str
) -> None:
    from pyspark.sql import functions as f

    moment = f.timestamp_millis(f.lit(TIMES_FROM + 200_000))
    conditions = {
        "partition": (f.col("partition") == 1, 1),
        "partitions": (f.col("partition").isin(0, 2), 2),
        "offset": ((f.col("offset") >= 90) & (f.col("offset") < 95), 3),
        "time": (f.col("timestamp") > moment, 3),
        "topic": (f.col("topic") == "another", 0),
    }
    for condition, tasks in conditions.values():
        found = []
        for name in FORMATS:
            read = load(spark, name, servers, {"subscribe": numbers}).where(condition)
            found.append(sorted((row.partition, row.offset) for row in read.collect()))
            if name == "barnabas":
                assert read.rdd.getNumPartitions() == max(tasks, 1)
        assert found[0] == found[1]
