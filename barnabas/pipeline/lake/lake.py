"""A topic as a table of files: every record in it exactly once, or the latest of each key.

In: the batches of a query. Out: PATH/batch=QUERY-NUMBER/date=.../*.parquet, or a Delta table.
Always: the bad rows of a batch are written before it is in the table. An attempt to write a batch
has a directory of its own. Parquet: it is hidden, and made visible by one rename, under a name made
of the query and the number of the batch. Delta: its files are added by one commit, which has the
query and the number too. Spark repeats a batch with the same records, so that one that is in the
table is never written again.
Not here: Delta's log (delta.py), bad rows (pipeline/run/dead_letters.py).
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.delta import DeltaLog
from barnabas.pipeline.run.dead_letters import BadRowWriter, query_of
from barnabas.pipeline.run.rows import DELETED, good_rows
from barnabas.pipeline.run.spec import LATEST, Spec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROWS_PER_FILE_MAX = 1_000_000
_HIDDEN = "_unfinished"  # readers of Parquet leave out what begins with an underscore
_SESSION = {
    # Streams turn it off for the sake of their state, which these batches have none of. With it,
    # Spark joins small shares and divides large ones before it writes files.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128MB",
    # What everyone reads, in place of a type of Hive's that is going out of use.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def lake_writer(spec: Spec, rows: "DataFrame", repeated: int | None) -> Any:
    """Of rows as the source gives them. `repeated`: a batch that an earlier run has begun."""
    letters = None if spec.errors.dlq is None else BadRowWriter(spec, repeated)
    table: ParquetTable | DeltaTable | LatestTable
    if spec.sink.format == "parquet":
        table = ParquetTable(spec)
    elif spec.sink.keep == LATEST:
        table = LatestTable(spec, key_of(spec))
    else:
        table = DeltaTable(spec)
    table.check(_shaped(spec, rows).drop(DELETED).schema)

    def write(batch: "DataFrame", number: int) -> None:
        spark = batch.sparkSession
        query = query_of(spark)
        for name, value in _SESSION.items():
            spark.conf.set(name, value)
        good = _shaped(spec, batch)
        if table.has(good, query, number):
            return
        if letters is not None:
            letters.write(batch, number)
        table.write(good, query, number)

    return rows.writeStream.foreachBatch(write)


def _shaped(spec: Spec, rows: "DataFrame") -> "DataFrame":
    """The good ones, with the columns of the table."""
    from pyspark.sql import functions as f

    rows = good_rows(spec, rows)
    columns = list(spec.sink.partition_by)
    if "date" in columns and "date" not in rows.columns:
        rows = rows.withColumn("date", f.to_date("_ts"))
    for column in columns:
        if column not in rows.columns:
            raise PipelineError(
                f"sink.partition_by: there is no column {column!r}; there are"
                f" {', '.join(rows.columns)}"
            )
    return rows


def key_of(spec: Spec) -> str:
    """The column that has the record's key."""
    return "key" if spec.source.format == "bytes" else "_key"


class ParquetTable:
    """A directory per batch."""

    def __init__(self, spec: Spec) -> None:
        self._path = str(spec.sink.path)
        self._columns = list(spec.sink.partition_by)
        self._options = spec.sink.options

    def check(self, schema: Any) -> None:
        """Files of any columns lie side by side."""

    def has(self, batch: "DataFrame", query: str, number: int) -> bool:
        return _Files(batch.sparkSession, self._path).exists(f"batch={query}-{number:09d}")

    def write(self, batch: "DataFrame", query: str, number: int) -> None:
        name = f"{query}-{number:09d}"
        files = _Files(batch.sparkSession, self._path)
        files.delete_all(f"{_HIDDEN}/{query}-*")  # of attempts that were killed
        attempt = f"{_HIDDEN}/{name}-{uuid4().hex}"
        write_files(batch, f"{self._path}/{attempt}", self._columns, self._options)
        files.rename(attempt, f"batch={name}")


class DeltaTable:
    """A commit per batch. The data files lie in a directory per attempt until they are joined."""

    def __init__(self, spec: Spec) -> None:
        path = str(spec.sink.path).removeprefix("file://")
        self._path = Path(os.path.abspath(path))
        self._columns = list(spec.sink.partition_by)
        self._options = spec.sink.options
        self._log = DeltaLog(str(self._path), self._columns)

    def check(self, schema: Any) -> None:
        """One line for columns that do not fit the table that is there."""
        self._log.check(schema)

    def has(self, batch: "DataFrame", query: str, number: int) -> bool:
        self._log.open(batch.drop(DELETED).schema)
        return self._log.has(query, number)

    def write(self, batch: "DataFrame", query: str, number: int) -> None:
        name = f"{query}-{number:09d}"
        for killed in self._path.glob(f"{name}-*"):
            shutil.rmtree(killed, ignore_errors=True)
        attempt = f"{name}-{uuid4().hex}"
        rows = self._rows(batch)
        write_files(rows, f"file://{self._path}/{attempt}", self._columns, self._options)
        self._commit(attempt, query, number)

    def _rows(self, batch: "DataFrame") -> "DataFrame":
        return batch

    def _commit(self, attempt: str, query: str, number: int) -> None:
        self._log.add(attempt, query, number)
        self._log.join_small_files(number)


class LatestTable(DeltaTable):
    """A row per key: each batch puts a new table in place of the one before."""

    def __init__(self, spec: Spec, key: str) -> None:
        super().__init__(spec)
        self._key = key

    def _rows(self, batch: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        said = f.format_string(
            "%s-%d, offset %d has no key: a table of the latest row of each key needs one",
            "_topic", "_partition", "_offset",
        )  # fmt: skip
        keyed = f.when(f.col(self._key).isNotNull(), True).otherwise(
            f.raise_error(said).cast("boolean")
        )
        rows = batch.where(keyed)
        before = self._log.rows(batch.sparkSession)
        if before is not None:
            rows = before.withColumn(DELETED, f.lit(False)).unionByName(
                rows, allowMissingColumns=True
            )
        return latest_rows(rows, self._key).where(~f.col(DELETED)).drop(DELETED)

    def _commit(self, attempt: str, query: str, number: int) -> None:
        self._log.replace(attempt, query, number)
        self._log.forget_old_files(number)


def latest_rows(rows: "DataFrame", key: str) -> "DataFrame":
    """Of each partition what was written last; of several, where a topic has grown, by time."""
    from pyspark.sql import functions as f

    order = list(rows.columns)
    last = _last(rows, [key, "_topic", "_partition"], f.col("_offset"))
    return _last(last, [key], f.struct("_ts", "_offset")).select(order)


def _last(rows: "DataFrame", of: list[str], by: "Column") -> "DataFrame":
    from pyspark.sql import functions as f

    rest = f.struct(*(column for column in rows.columns if column not in of))
    found = rows.groupBy(*of).agg(f.max_by(rest, by).alias("last"))
    return found.select(*of, "last.*")


def write_files(rows: "DataFrame", path: str, columns: list[str], options: dict[str, str]) -> None:
    """A file per value of the columns, not one per task and value, unless it grows too large."""
    writer = rows.hint("rebalance", *columns).write.mode("overwrite")
    writer = writer.option("maxRecordsPerFile", ROWS_PER_FILE_MAX)
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer = writer.options(**options)
    if columns:
        writer = writer.partitionBy(*columns)
    writer.parquet(path)


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

    def delete_all(self, pattern: str) -> None:
        for found in self._fs.globStatus(self._path(f"{self._root}/{pattern}")) or ():
            self._fs.delete(found.getPath(), True)
