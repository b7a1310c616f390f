"""Writes the bad rows of a batch to the retry topic and the dead-letter topic, each once.

In: the batches of a query, as the source gives them. Out: records with the headers of rows.py.
Always: only the driver writes, so that tasks which Spark repeats write nothing twice; of a batch
that Spark repeats because the run before it was cut off, only what is not there yet is written.
Not here: which rows are bad, and what is said of them (rows.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.client.workers import letters
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.rows import bad_rows
from barnabas.pipeline.run.spec import Spec

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

_QUERY = "sql.streaming.queryId"


def query_of(spark: "SparkSession") -> str:
    """Which query the batch is of that is being written."""
    query = spark.sparkContext.getLocalProperty(_QUERY)
    if query is None:
        raise PipelineError("Spark does not say which query this is: rows could be repeated")
    return str(query)


class BadRowWriter:
    """Of one query. `repeated`: the batch that an earlier run may have written in part."""

    def __init__(self, spec: Spec, repeated: int | None) -> None:
        self._spec = spec
        self._repeated = repeated

    def write(self, batch: "DataFrame", number: int) -> None:
        from barnabas.pipeline.spark.options import sink_options
        from barnabas.pipeline.spark.writing import Writing

        name = f"{query_of(batch.sparkSession)}-{number}"
        bad = bad_rows(self._spec, batch, name)
        if number == self._repeated:
            there = self._written(batch.sparkSession, name)
            bad = bad.withColumn("id", _identity()).join(there, "id", "left_anti").drop("id")
        packed = bad.mapInArrow(_packed, "batch binary").persist()
        try:
            if packed.count():
                given = {"kafka.bootstrap.servers": self._spec.source.servers}
                batches = (_unpacked(row.batch) for row in packed.toLocalIterator())
                Writing(sink_options({**given, "includeHeaders": "true"})).write(batches)
        finally:
            packed.unpersist()

    def _written(self, spark: "SparkSession", name: str) -> "DataFrame":
        """What is in the two topics of this batch."""
        from pyspark.sql import functions as f

        errors = self._spec.errors
        topics = ",".join(each for each in (errors.retry_topic, errors.dlq) if each is not None)
        given = {
            "kafka.bootstrap.servers": self._spec.source.servers,
            "subscribe": topics,
            "includeHeaders": "true",
            "failOnDataLoss": "false",
        }
        rows = spark.read.format("barnabas").options(**given).load()
        return rows.where(_header(letters.BATCH) == f.lit(name)).select(_identity().alias("id"))


def _identity() -> "Column":
    """A record of a batch goes to one of the topics, once."""
    from pyspark.sql import functions as f

    names = (letters.TOPIC, letters.PARTITION, letters.OFFSET, letters.ATTEMPTS)
    return f.concat_ws(":", "topic", *(_header(name) for name in names))


def _header(name: str) -> "Column":
    from pyspark.sql import functions as f

    last = f"try_element_at(filter(headers, h -> h.key = '{name}'), -1).value"
    return f.expr(f"cast({last} as string)")


def _packed(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    """Each as one row, so that the driver takes them as they are."""
    import pyarrow

    for batch in batches:
        if batch.num_rows:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            packed = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())
            yield pyarrow.record_batch([packed], names=["batch"])


def _unpacked(packed: bytes) -> "pyarrow.RecordBatch":
    import pyarrow

    with pyarrow.ipc.open_stream(packed) as stream:
        return stream.read_next_batch()
