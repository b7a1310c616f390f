"""A pipeline into a table in this process, without Spark, to be read as one with its topic."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from barnabas.pipeline.lake.batch_commit import Attempt
from barnabas.pipeline.lake.delta import DeltaLog
from barnabas.pipeline.lake.file_writer import PartitionField
from barnabas.pipeline.lake.iceberg_table import iceberg_log
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.spec import load
from barnabas.pipeline.spark.batch_identity import BatchIdentity, known_ids
from barnabas.pipeline.spark.brokers import Brokers
from tests.spark.lake.rows import write
from tests.spark.specs import FIRST_MS
from tests.waiting import WAIT_S

DAY_MS = 86_400_000
DAYS = 4


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
        """Ids in order, over two partitions and four days; every tenth value is bad."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 1})
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        for n in range(self.written, self.written + count):
            value = b"bad" if n % 10 == 9 else json.dumps({"id": n}).encode()
            # Brokers refuse records whose time is in the future.
            at_ms = FIRST_MS + n * DAY_MS // 100 % (DAYS * DAY_MS)
            producer.produce(
                self.topic, value, partition=n % 2, timestamp=at_ms, on_delivery=delivered
            )
        assert producer.flush(WAIT_S) == 0
        assert not failed, failed[0]
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
