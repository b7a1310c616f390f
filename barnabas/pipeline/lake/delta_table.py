"""Delta tables: every row, or the latest row of each key.

In: the rows of a batch, and its identity. Out: commits.
Always: an attempt to write a batch has a directory of its own, QUERY/VERSION/RANDOM. No directory
is deleted that the log may name: only attempts for a version that this process has just committed,
and this process's own attempt if its commit was refused.
Not here: Delta's log (delta.py), the order of the steps (batch_commit.py).
"""

from typing import TYPE_CHECKING, Any

from barnabas.pipeline.lake.batch_commit import NONE, Attempt, TableState
from barnabas.pipeline.lake.data_files import read_data_files, write_data_files
from barnabas.pipeline.lake.delta import DeltaLog
from barnabas.pipeline.lake.file_writer import (
    PartitionedFiles,
    PartitionField,
    WriterTask,
    WrittenFile,
)
from barnabas.pipeline.lake.latest import Deletions, keyed_rows, latest_rows
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.rows import DELETED
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOIN_EVERY = 10  # batches


class DeltaTable:
    """A commit per batch. The data files stay in a directory per attempt until they are
    compacted.
    """

    replaces = False

    def __init__(self, spec: Spec) -> None:
        self._store = Store(str(spec.sink.path))
        self.name = self._store.uri
        self._columns = list(spec.sink.partition_by)
        self._compression = spec.sink.options.get("compression", "snappy")
        self._log = DeltaLog(self._store, self._columns, spec.name)

    def check(self, schema: Any) -> None:
        if self._store.on_s3:
            from barnabas.pipeline.lake.conditional_put import check_conditional_writes

            check_conditional_writes(self._store)
        self._log.check(schema)

    def prepare(self, schema: Any) -> None:
        self._log.open(schema)

    def offsets(self, keys: list[str]) -> dict[str, int]:
        """Up to where the table has rows of this pipeline; empty if there is no table."""
        return self._log.offsets(keys) if self._log.exists() else {}

    def has_rows_of_others(self) -> bool:
        """Whether the table has files, and no batch of this pipeline."""
        return self._log.exists() and not self._log.is_own() and bool(self._log.files())

    def state(self, identity: BatchIdentity) -> TableState:
        if not self._log.exists():
            return TableState(NONE, {})
        return self._log.state(identity)

    def write_files(self, rows: "DataFrame", attempt: Attempt) -> list[WrittenFile]:
        return write_data_files(rows, self._task(rows, attempt.directory))

    def _task(self, rows: "DataFrame", directory: str) -> WriterTask:
        from pyspark.sql.pandas.types import to_arrow_schema

        return WriterTask(
            self._store,
            directory,
            to_arrow_schema(rows.schema, timezone="UTC").serialize().to_pybytes(),
            tuple(PartitionField(name, in_file=False) for name in self._columns),
            self._compression,
        )

    def commit(self, files: list[WrittenFile], attempt: Attempt) -> bool:
        return self._log.commit(files, attempt)

    def has_attempt(self, attempt: Attempt) -> bool:
        return self._log.has_attempt(attempt)

    def committed(self, attempt: Attempt) -> None:
        for other in self._store.names(attempt.versions_directory):
            if other != attempt.id:
                self._store.delete(f"{attempt.versions_directory}/{other}")
        if attempt.version % JOIN_EVERY == JOIN_EVERY - 1:
            self._tidy()

    def _tidy(self) -> None:
        self._log.join_small_files()
        self._log.vacuum()

    def discard(self, attempt: Attempt) -> None:
        self._store.delete(attempt.directory)


class LatestTable(DeltaTable):
    """A row per key: each batch replaces the table.

    With a retry topic, deletions are kept beside the table (latest.py).
    """

    replaces = True

    def __init__(self, spec: Spec, key: str) -> None:
        super().__init__(spec)
        self._key = key
        self._deletions = Deletions(self._store, key) if spec.errors.retry_topic else None

    def write_files(self, rows: "DataFrame", attempt: Attempt) -> list[WrittenFile]:
        from pyspark.sql import functions as f

        latest = latest_rows(self._with_rows_before(rows), self._key)
        if self._deletions is not None:
            latest = latest.persist()
        try:
            kept = latest.where(~f.col(DELETED)).drop(DELETED)
            task = self._task(kept, attempt.directory)
            files = write_data_files(kept, task)
            if self._deletions is not None:
                self._deletions.write(latest.where(DELETED), attempt.id)
        finally:
            latest.unpersist()
        return files or [_empty_file(task)]

    def _with_rows_before(self, batch: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        rows = keyed_rows(batch, self._key)
        spark = batch.sparkSession
        names = self._log.files()
        if names:
            schema = StructType.fromJson(self._log.schema_json)
            before = read_data_files(spark, self._store, names, schema)
            rows = before.withColumn(DELETED, f.lit(False)).unionByName(
                rows, allowMissingColumns=True
            )
            if self._deletions is not None:
                # The files of the table are those of the last attempt.
                last = names[0].split("/")[-2]
                deleted = self._deletions.rows(spark, last, batch.schema)
                if deleted is not None:
                    rows = rows.unionByName(deleted, allowMissingColumns=True)
        return rows

    def commit(self, files: list[WrittenFile], attempt: Attempt) -> bool:
        return self._log.commit(files, attempt, replace=True)

    def committed(self, attempt: Attempt) -> None:
        super().committed(attempt)
        if self._deletions is not None:
            self._deletions.keep_only(attempt.id)

    def _tidy(self) -> None:
        self._log.vacuum()

    def discard(self, attempt: Attempt) -> None:
        super().discard(attempt)
        if self._deletions is not None:
            self._deletions.discard(attempt.id)


def _empty_file(task: WriterTask) -> WrittenFile:
    """delta-rs replaces all files by at least one."""
    import pyarrow

    files = PartitionedFiles(task)
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(task.schema))
    files.add(pyarrow.RecordBatch.from_pylist([], schema=schema))
    files.finish()
    return files.written[0]
