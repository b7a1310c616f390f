"""A table and its topic read as one: no gap, no overlap, also while both grow. Without Spark: its
reader is called as Spark calls it.
"""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from barnabas.pipeline.errors import DataLoss, OptionError, PipelineError
from barnabas.pipeline.lake.batch_commit import Attempt
from barnabas.pipeline.lake.delta import DeltaLog
from barnabas.pipeline.lake.file_writer import PartitionField
from barnabas.pipeline.lake.iceberg_table import iceberg_log
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.spec import load
from barnabas.pipeline.spark.batch_identity import BatchIdentity, known_ids
from barnabas.pipeline.spark.brokers import Brokers
from tests.conftest import _or_skip
from tests.process import running_broker
from tests.spark.lake.rows import write
from tests.spark.specs import FIRST_MS
from tests.spark.topics import create
from tests.support.spark import check_spark

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
READS = int(os.environ.get("UNION_READS", "25"))
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    _or_skip(check_spark)
    with running_broker(tmp_path_factory.mktemp("union"), {"num.partitions": "2"}) as running:
        yield running.bootstrap_servers


class Lake:
    """A pipeline in this process: it reads the topic and adds batches to the table."""

    def __init__(self, servers: str, topic: str, out: Path, format_: str) -> None:
        self.servers, self.topic = servers, topic
        sink: dict[str, Any] = {"format": "delta", "path": f"{out}/lake"}
        if format_ == "iceberg":
            catalog = {"type": "sql", "uri": f"sqlite:///{out}/catalog.db", "warehouse": f"{out}/w"}
            sink = {"format": "iceberg", "table": "sales.orders", "catalog": catalog}
        self.document: dict[str, Any] = {
            "name": "orders-lake",
            "kind": "lake",
            "source": {
                "servers": servers,
                "topics": [topic],
                "format": "json",
                "schema": "id long, note string",
            },
            "sink": sink,
            "errors": {"dlq": f"{topic}.dlq"},
            "run": {"checkpoint": f"{out}/state"},
        }
        self.path = out / "lake.yml"
        self.path.write_text(json.dumps(self.document))
        self.spec = load(self.path)
        self.written = 0
        self.batches = 0

    def produce(self, count: int) -> None:
        """Ids in order, over two partitions and several days; every tenth value is bad."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 1})
        for n in range(self.written, self.written + count):
            value = b"bad" if n % 10 == 9 else json.dumps({"id": n}).encode()
            at_ms = FIRST_MS + n * DAY_MS // 100
            producer.produce(self.topic, value, partition=n % 2, timestamp=at_ms)
        assert producer.flush(60) == 0
        self.written += count

    def good(self) -> list[int]:
        return [n for n in range(self.written) if n % 10 != 9]

    def reader(self, *filters: Any, **given: str) -> Any:
        from pyspark.sql.types import (
            DateType,
            IntegerType,
            LongType,
            StringType,
            StructField,
            StructType,
            TimestampType,
        )  # fmt: skip

        from barnabas.pipeline.lake.union import FilteringUnionReader

        types: dict[str, Any] = {
            "id": LongType(), "note": StringType(), "_topic": StringType(),
            "_partition": IntegerType(), "_offset": LongType(), "_ts": TimestampType(),
        }  # fmt: skip
        if self.spec.sink.format == "delta":
            types["date"] = DateType()
        schema = StructType([StructField(name, type_) for name, type_ in types.items()])
        reader = FilteringUnionReader({"lake": str(self.path), **given}, schema)
        reader.pushFilters(list(filters))
        return reader

    def ids(self, *filters: Any) -> list[int]:
        reader = self.reader(*filters)
        rows = [
            n
            for part in reader.partitions()
            for batch in reader.read(part)
            for n in batch.column("id").to_pylist()
        ]
        return sorted(rows)

    def ingest(self) -> None:
        """One batch: all records that the table does not have."""
        reader = self.reader()
        log, fields, store = self.log()
        brokers = Brokers(reader._options)
        partitions = brokers.partitions()
        ids = known_ids(brokers.topic_ids)
        end = brokers.latest(partitions, {})
        start = dict.fromkeys(partitions, 0)
        identity = BatchIdentity("q", self.batches, start, end, ids)
        state = log.state(identity)
        remaining = identity.remaining(state.done)
        if not remaining:
            return
        attempt = Attempt(identity, state.next_version(identity), state.done, uuid4().hex)
        schema = None if self.spec.sink.format == "delta" else log.arrow_schema()
        files = []
        for part in reader.partitions():
            if not hasattr(part.value, "range"):
                continue
            each = part.value.range
            if each.stop > end[each.at]:  # produced since
                part.value = _until(part.value, end[each.at])
            for batch in reader.read(part):
                where = f"data/{attempt.directory}"
                files += write(store, where, batch, fields, schema or batch.schema)
        assert log.commit(files, attempt)
        self.batches += 1

    def log(self) -> Any:
        if self.spec.sink.format == "iceberg":
            log = iceberg_log(self.spec)
            log.open(_arrow(self.reader()))
            return log, log._fields, log.store
        pytest.importorskip("deltalake")
        store = Store(str(self.spec.sink.path))
        delta = DeltaLog(store, ["date"], "orders-lake")
        delta.open(self.reader()._schema)
        return delta, (PartitionField("date", in_file=False),), store


def _until(task: Any, stop: int) -> Any:
    from dataclasses import replace

    return replace(task, range=task.range._replace(stop=stop))


def _arrow(reader: Any) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(reader._schema, timezone="UTC")


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, servers: str, tmp_path: Path) -> Lake:
    topic = f"orders-{uuid4().hex[:8]}"
    create(servers, topic, 2)
    return Lake(servers, topic, tmp_path, request.param)


def test_rows_of_the_table_and_of_the_log_are_each_there_once(lake: Lake) -> None:
    lake.produce(50)
    assert lake.ids() == lake.good()  # there is no table yet
    lake.ingest()
    assert lake.ids() == lake.good()
    lake.produce(50)
    assert lake.ids() == lake.good()
    lake.ingest()
    lake.ingest()
    lake.produce(7)
    assert lake.ids() == lake.good()
    parts = lake.reader().partitions()
    records = sum(part.value.range.size for part in parts if hasattr(part.value, "range"))
    assert records == 7  # the rest is in the table


def test_reads_while_the_pipeline_writes_see_every_record_once(lake: Lake) -> None:
    """Each read sees at least the records that were there when it began, and never one twice."""
    lake.produce(20)
    stop = threading.Event()
    problems: list[BaseException] = []

    def write_on() -> None:
        try:
            while not stop.is_set():
                lake.produce(20)
                lake.ingest()
                stop.wait(lake.batches * 0.005)  # tables with many commits are slower
        except BaseException as problem:
            problems.append(problem)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(READS):
            before = lake.good()
            found = lake.ids()
            assert len(found) == len(set(found))
            assert found[: len(before)] == before
            for partition in (0, 1):  # one can be ahead of the other
                ids = [n for n in found if n % 2 == partition]
                assert ids == [n for n in range(partition, ids[-1] + 1, 2) if n % 10 != 9]
    finally:
        stop.set()
        writer.join()
    assert not problems
    assert lake.ids() == lake.good()


def test_filters_read_fewer_files_and_records(lake: Lake) -> None:
    from datetime import UTC, datetime

    from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

    lake.produce(400)  # four days
    lake.ingest()
    lake.produce(10)

    def files(*filters: Any) -> int:
        parts = lake.reader(*filters).partitions()
        return sum(len(part.value[1]) for part in parts if isinstance(part.value, tuple))

    assert files() >= 8 if lake.spec.sink.format == "iceberg" else files() >= 4
    day = [datetime.fromtimestamp((FIRST_MS + n * DAY_MS) / 1000, UTC) for n in range(5)]
    one = [GreaterThanOrEqual(("_ts",), day[1]), LessThan(("_ts",), day[2])]
    assert files(*one) <= 4 < files()
    assert [n for n in lake.ids(*one) if n < 400][:90] == [n for n in lake.good() if 100 <= n < 200]
    late = GreaterThanOrEqual(("_offset",), 200)
    assert files(late) == 0
    assert lake.ids(late) == [n for n in lake.good() if n >= 400]
    other = EqualTo(("_partition",), 1)
    assert lake.ids(other) == [n for n in lake.good() if n % 2 == 1]


def test_records_that_are_in_neither_are_an_error(lake: Lake) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    lake.produce(20)
    lake.ingest()
    lake.produce(20)
    admin = AdminClient({"bootstrap.servers": lake.servers})
    for done in admin.delete_records([TopicPartition(lake.topic, 0, 15)]).values():
        done.result()
    with pytest.raises(DataLoss, match=f"{lake.topic}-0: the brokers have deleted records"):
        lake.reader().partitions()


def test_a_topic_that_was_created_again_is_refused(lake: Lake) -> None:
    from confluent_kafka.admin import AdminClient

    lake.produce(20)
    lake.ingest()
    admin = AdminClient({"bootstrap.servers": lake.servers})
    for done in admin.delete_topics([lake.topic]).values():
        done.result()
    create(lake.servers, lake.topic, 2)
    with pytest.raises(DataLoss, match="was deleted and created again"):
        lake.reader().partitions()


def test_options_that_do_not_fit_are_one_line(lake: Lake, tmp_path: Path) -> None:
    from barnabas.pipeline.lake.union import lake_spec

    with pytest.raises(OptionError, match=r"lake: 'none\.yml' is not a file"):
        lake_spec({"lake": "none.yml"})
    with pytest.raises(OptionError, match="subscribe: the spec of the lake says it"):
        lake.reader(subscribe="orders")
    lake.document["sink"]["keep"] = "latest"
    lake.path.write_text(json.dumps(lake.document))
    with pytest.raises(PipelineError, match="keeps the latest row of each key"):
        lake.reader()
