"""Writes the bad rows of a batch to the retry topic and the dead-letter topic, each once.

In: the batches of a query, as the source returns them. Out: records with the headers of rows.py.
Always: only the driver writes, so a task that Spark repeats writes nothing twice, and of two
drivers only the newer one (bad_row_producer.py). If bad rows of these offsets were written before,
by an interrupted run or before an old checkpoint was restored, only the rows that are not in the
topics yet are written.
Not here: which rows are bad, and their headers (rows.py).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.client.workers import dead_letter_headers as header_names
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.bad_row_producer import BadRow, BadRowProducer
from barnabas.pipeline.run.rows import bad_rows
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity, overlaps

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

_QUERY = "sql.streaming.queryId"


def query_of(spark: "SparkSession") -> str:
    """The query whose batch is being written."""
    query = spark.sparkContext.getLocalProperty(_QUERY)
    if query is None:
        raise PipelineError(
            "Spark does not name the query of this batch: rows could be written twice"
        )
    return str(query)


class BadRowWriter:
    """Writes the bad rows of one query. `client`: the options of its producer. `limits`: the
    largest record of each of the two topics.
    """

    def __init__(
        self,
        spec: Spec,
        client: Mapping[str, str],
        limits: Mapping[str, int],
        identify: Callable[[str, int], BatchIdentity],
    ) -> None:
        self._spec = spec
        self._client = client
        self._limits = limits
        self._identify = identify
        self._producer: BadRowProducer | None = None

    def write(self, batch: "DataFrame", number: int) -> None:
        spark = batch.sparkSession
        identity = self._identify(query_of(spark), number)
        producer = self._opened(identity.query)
        bad = bad_rows(self._spec, batch, identity.name)
        if overlaps(identity, producer.done(identity)):
            there = self._written(spark, identity.query)
            bad = bad.withColumn("id", _identity()).join(there, "id", "left_anti").drop("id")
        packed = bad.mapInArrow(_packed, "batch binary").persist()
        try:
            rows: Iterator[BadRow] = iter(())
            if packed.count():
                rows = (row for each in packed.toLocalIterator() for row in _unpacked(each.batch))
            producer.write(identity, rows)
        finally:
            packed.unpersist()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    def _opened(self, query: str) -> BadRowProducer:
        if self._producer is None:
            dlq = str(self._spec.errors.dlq)
            group = self._spec.source.group
            self._producer = BadRowProducer(self._client, query, group, dlq, self._limits)
        return self._producer

    def _written(self, spark: "SparkSession", query: str) -> "DataFrame":
        """The rows of this query that are in the two topics already."""
        errors = self._spec.errors
        topics = ",".join(each for each in (errors.retry_topic, errors.dlq) if each is not None)
        given = {
            **{f"kafka.{name}": value for name, value in self._client.items()},
            "kafka.isolation.level": "read_committed",
            "subscribe": topics,
            "includeHeaders": "true",
            "failOnDataLoss": "false",
        }
        rows = spark.read.format("barnabas").options(**given).load()
        return rows.where(_header(header_names.BATCH).startswith(f"{query}-")).select(
            _identity().alias("id")
        )


def _identity() -> "Column":
    """Identifies a row of a query, which is written once to one of the topics."""
    from pyspark.sql import functions as f

    names = (header_names.TOPIC, header_names.PARTITION, header_names.OFFSET, header_names.ATTEMPTS)
    return f.concat_ws(":", *(_header(name) for name in names))


def _header(name: str) -> "Column":
    from pyspark.sql import functions as f

    last = f"try_element_at(filter(headers, h -> h.key = '{name}'), -1).value"
    return f.expr(f"cast({last} as string)")


def _packed(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    """Packs each record into one row, so that the driver can write it unchanged."""
    import pyarrow

    for batch in batches:
        if batch.num_rows:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            packed = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())
            yield pyarrow.record_batch([packed], names=["batch"])


def _unpacked(packed: bytes) -> Iterator[BadRow]:
    import pyarrow

    with pyarrow.ipc.open_stream(packed) as stream:
        for row in stream.read_next_batch().to_pylist():
            headers = tuple((each["key"], each["value"]) for each in row["headers"])
            yield BadRow(row["topic"], row["key"], row["value"], headers)
