"""A topic as a table of Parquet files, every record in it exactly once.

In: the batches of a query. Out: PATH/batch=QUERY-NUMBER/date=.../*.parquet.
Always: a batch is written whole to a hidden place, then made visible by one rename, under a name
made of the query and the number of the batch; Spark repeats a batch with the same records, so that
one that is visible is never written again.
"""

from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spec import Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FILE_MAX = 1_000_000
_QUERY = "sql.streaming.queryId"
_HIDDEN = "_unfinished"  # readers of Parquet leave out what begins with an underscore


def lake_writer(spec: Spec, rows: "DataFrame") -> Any:
    from pyspark.sql import functions as f

    columns = list(spec.sink.partition_by)
    if "date" in columns and "date" not in rows.columns:
        rows = rows.withColumn("date", f.to_date("_ts"))
    for column in columns:
        if column not in rows.columns:
            raise PipelineError(
                f"sink.partition_by: there is no column {column!r}; there are"
                f" {', '.join(rows.columns)}"
            )
    path = str(spec.sink.path)

    def write(batch: "DataFrame", number: int) -> None:
        write_batch(batch, number, path, columns, spec.sink.options)

    return rows.writeStream.foreachBatch(write)


def write_batch(
    batch: "DataFrame", number: int, path: str, columns: list[str], options: dict[str, str]
) -> None:
    spark = batch.sparkSession
    query = spark.sparkContext.getLocalProperty(_QUERY)
    if query is None:
        raise PipelineError("Spark does not say which query this is: its files could be repeated")
    name = f"{query}-{number:09d}"
    files = _Files(spark, path)
    if files.exists(f"batch={name}"):
        return
    # A file per value of the columns, not one per task and value.
    rows = batch.repartition(*columns) if columns else batch.coalesce(1)
    writer = rows.write.mode("overwrite").option("maxRecordsPerFile", ROWS_PER_FILE_MAX)
    writer = writer.options(**options)
    if columns:
        writer = writer.partitionBy(*columns)
    writer.parquet(f"{path}/{_HIDDEN}/{name}")
    files.rename(f"{_HIDDEN}/{name}", f"batch={name}")


class _Files:
    """A directory in whatever file system Spark writes to."""

    def __init__(self, spark: Any, path: str) -> None:
        self._path = spark._jvm.org.apache.hadoop.fs.Path
        self._root = path
        self._fs = self._path(path).getFileSystem(spark._jsc.hadoopConfiguration())

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._path(f"{self._root}/{name}")))

    def rename(self, name: str, to: str) -> None:
        moved = self._fs.rename(
            self._path(f"{self._root}/{name}"), self._path(f"{self._root}/{to}")
        )
        if not moved and not self.exists(to):
            raise PipelineError(f"{self._root}/{name} cannot be renamed to {to}; is it writable?")
