"""A topic as a table of files: each record exactly once, or the latest record of each key.

In: the batches of a query. Out: a directory of Parquet files, or a Delta table.
Always: the bad rows of a batch are written before it is in the table. A table knows the offsets up
to which it has rows (pipeline/spark/batch_identity.py): a row that it has is never written again,
neither in another batch nor by another driver.
Not here: the tables (parquet.py, delta_table.py), bad rows (pipeline/run/dead_letters.py).
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import PipelineError, one_line
from barnabas.pipeline.lake.delta_table import DeltaTable, LatestTable
from barnabas.pipeline.lake.parquet import ParquetTable
from barnabas.pipeline.run.dead_letters import BadRowWriter, query_of
from barnabas.pipeline.run.rows import DELETED, good_rows
from barnabas.pipeline.run.spec import LATEST, Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity
from barnabas.pipeline.spark.files import directory_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SESSION = {
    # Spark turns it off for streams that keep state; these batches keep none. With it, Spark joins
    # small partitions and splits large ones before it writes files.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128MB",
    # Every reader supports this type; Spark's default is a deprecated type of Hive.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def lake_writer(
    spec: Spec,
    rows: "DataFrame",
    identify: Callable[[str, int], BatchIdentity],
    letters: BadRowWriter | None,
) -> Any:
    """Writes rows as the source returns them."""
    table: ParquetTable | DeltaTable | LatestTable
    if spec.sink.format == "parquet":
        table = ParquetTable(spec, directory_of(rows.sparkSession, str(spec.sink.path)))
    elif spec.sink.keep == LATEST:
        table = LatestTable(spec, key_of(spec))
    else:
        table = DeltaTable(spec)

    def shape(batch: "DataFrame") -> "DataFrame":
        return _shaped(spec, batch)

    table.check(shape(rows).drop(DELETED).schema)

    @one_line
    def write(batch: "DataFrame", number: int) -> None:
        spark = batch.sparkSession
        identity = identify(query_of(spark), number)
        for name, value in _SESSION.items():
            spark.conf.set(name, value)
        if table.has(identity):
            return
        if letters is not None:
            letters.write(batch, number)
        table.write(batch, shape, identity)

    return rows.writeStream.foreachBatch(write)


def _shaped(spec: Spec, rows: "DataFrame") -> "DataFrame":
    """The good rows, with the columns of the table."""
    from pyspark.sql import functions as f

    rows = good_rows(spec, rows)
    columns = list(spec.sink.partition_by)
    check_names(rows.columns, columns, spec.sink.format)
    if "date" in columns and "date" not in rows.columns:
        rows = rows.withColumn("date", f.to_date("_ts"))
    for column in columns:
        if column not in rows.columns:
            raise PipelineError(
                f"sink.partition_by: there is no column {column!r}; the columns are"
                f" {', '.join(rows.columns)}"
            )
    return rows


def check_names(names: Iterable[str], columns: list[str], format_: str) -> None:
    """PipelineError for columns that a reader of the table could not tell apart: Spark and many
    other readers ignore the case of names.
    """
    seen: dict[str, str] = {}
    reserved = {"batch": "the name of a directory in the table"} if format_ == "parquet" else {}
    if "date" in columns:
        reserved["date"] = "the day of the record, by which the table is partitioned"
    for name in names:
        low = name.lower()
        if low in seen:
            raise PipelineError(
                f"source.schema: the columns {seen[low]!r} and {name!r} differ only in case, or"
                " not at all (_topic, _partition, _offset, _ts, _key and _deleted are added to"
                " each row): rename one of them"
            )
        seen[low] = name
        if low in reserved and name != "date":
            raise PipelineError(
                f"source.schema: the column {name!r} would be hidden by {low!r}, {reserved[low]}:"
                " rename the column"
                + (", or set sink.partition_by" if low == "date" else ", or set format to delta")
            )


def key_of(spec: Spec) -> str:
    """The column that has the record's key."""
    return "key" if spec.source.format == "bytes" else "_key"
