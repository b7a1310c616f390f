"""An exactly-once sink without Spark: what its driver and its tasks do, step by step."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from barnabas.client.blocking.admin import Admin
from barnabas.pipeline.spark.once_sink import OnceSink, OnceWritten, TaskAttempt
from barnabas.pipeline.spark.options import sink_options
from tests.waiting import WAIT_S

QUERY = "7f1f3f5e-0000-0000-0000-000000000001"


def rows(*values: int, partition: int | None = None) -> Any:
    columns: dict[str, Any] = {"value": pa.array([b"%d" % value for value in values])}
    if partition is not None:
        columns["partition"] = pa.array([partition] * len(values), pa.int32())
    return pa.record_batch(columns)


class SparkQuery:
    """A checkpoint, and drivers that are started on it."""

    def __init__(self, servers: str, topic: str, directory: Path, query: str = QUERY) -> None:
        self.servers, self.topic, self.directory, self.query = servers, topic, directory, query
        (directory / "offsets").mkdir(parents=True, exist_ok=True)
        (directory / "metadata").write_text(f'{{"id":"{query}"}}')

    def plan(self, number: int, end: int) -> None:
        document = f'v1\n{{"batchTimestampMs":{number}}}\n{{"source":{{"0":{end}}}}}'
        (self.directory / "offsets" / str(number)).write_text(document)

    def sink(self, **more: str) -> OnceSink:
        return OnceSink(sink_options(self.options(**more)))

    def options(self, **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "topic": self.topic,
            "exactlyOnce": "true",
            "checkpointLocation": str(self.directory),
            **more,
        }

    def started(self, **more: str) -> OnceSink:
        """The writer of a driver, as it is sent to tasks."""
        found = self.sink(**more)
        found.prepare()
        return found

    def task(
        self, sink: OnceSink, number: int, partition: int, *batches: Any, attempt: int = 0
    ) -> OnceWritten:
        at = TaskAttempt(self.query, number, partition, attempt)
        return sink.write(iter(batches), at)

    def batch(self, number: int, *values: int, partitions: int = 2) -> None:
        """A whole batch, with a task for each partition."""
        sink = self.started()
        reports = [
            self.task(sink, number, index, rows(*values[index::partitions], partition=index))
            for index in range(partitions)
            if values[index::partitions]
        ]
        self.sink().commit(reports, number)


def create(servers: str, *topics: str, partitions: int = 2) -> None:
    with Admin({"bootstrap.servers": servers}) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=partitions)


def committed(servers: str, topic: str, partitions: int = 2) -> list[int]:
    """The values that a reader of committed records gets, sorted."""
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "r", "enable.partition.eof": True,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
    })  # fmt: skip
    found = []
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        ended = 0
        while ended < partitions:
            message = consumer.poll(WAIT_S)
            assert message is not None, "no answer"
            if message.error():
                ended += 1
            else:
                found.append(int(message.value() or b""))
    finally:
        consumer.close()
    return sorted(found)
