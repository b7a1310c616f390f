"""Iceberg tables: every row, or the latest row of each key.

In: the rows of a batch, and its identity. Out: snapshots.
Always: an attempt to write a batch has a directory of its own, data/QUERY/VERSION/RANDOM. No
directory is deleted that a snapshot may name: only attempts for a version that this process has
just committed, and this process's own attempt if its commit was refused.
Not here: snapshots (iceberg.py), the order of the steps (batch_commit.py), upkeep (upkeep.py).
"""

from typing import TYPE_CHECKING, Any

from barnabas.pipeline.lake.batch_commit import Attempt, TableState
from barnabas.pipeline.lake.data_files import column_ids, read_data_files, write_data_files
from barnabas.pipeline.lake.file_writer import PartitionField, WriterTask, WrittenFile
from barnabas.pipeline.lake.iceberg import DATA, IcebergLog
from barnabas.pipeline.lake.iceberg_catalog import CatalogSpec, partition_field
from barnabas.pipeline.lake.latest import Deletions, keyed_rows, latest_rows
from barnabas.pipeline.run.rows import DELETED
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def iceberg_log(spec: Spec) -> IcebergLog:
    fields = tuple(field for text in spec.sink.partition_by if (field := partition_field(text)))
    catalog = CatalogSpec(spec.sink.catalog.get("name", "default"), _options(spec))
    return IcebergLog(catalog, str(spec.sink.table), fields, spec.name)


def _options(spec: Spec) -> dict[str, str]:
    return {name: value for name, value in spec.sink.catalog.items() if name != "name"}


class IcebergTable:
    """A snapshot per batch."""

    replaces = False

    def __init__(self, spec: Spec) -> None:
        self._log = iceberg_log(spec)
        self.name = self._log.name
        self._compression = spec.sink.options.get("compression", "zstd")
        self._fields: tuple[PartitionField, ...] = tuple(
            field for text in spec.sink.partition_by if (field := partition_field(text))
        )

    def check(self, schema: Any) -> None:
        self._log.check(_arrow(schema))

    def prepare(self, schema: Any) -> None:
        self._log.open(_arrow(schema))

    def offsets(self, keys: list[str]) -> dict[str, int]:
        """Up to where the table has rows of this pipeline; empty if there is no table."""
        return self._log.offsets()

    def state(self, identity: BatchIdentity) -> TableState:
        return self._log.state(identity)

    def write_files(self, rows: "DataFrame", attempt: Attempt) -> list[WrittenFile]:
        return write_data_files(rows, self._task(rows.columns, attempt))

    def _task(self, columns: list[str], attempt: Attempt) -> WriterTask:
        import pyarrow

        # Columns that the table has and this batch does not have are not in its files.
        schema = self._log.arrow_schema()
        here = pyarrow.schema([each for each in schema if each.name in columns])
        return WriterTask(
            self._log.store,
            f"{DATA}/{attempt.directory}",
            here.serialize().to_pybytes(),
            self._fields,
            self._compression,
        )

    def commit(self, files: list[WrittenFile], attempt: Attempt) -> bool:
        return self._log.commit(files, attempt)

    def has_attempt(self, attempt: Attempt) -> bool:
        return self._log.has_attempt(attempt)

    def committed(self, attempt: Attempt) -> None:
        store = self._log.store
        for other in store.names(f"{DATA}/{attempt.versions_directory}"):
            if other != attempt.id:
                store.delete(f"{DATA}/{attempt.versions_directory}/{other}")

    def discard(self, attempt: Attempt) -> None:
        self._log.store.delete(f"{DATA}/{attempt.directory}")


class LatestIcebergTable(IcebergTable):
    """A row per key: each batch replaces the table, in one snapshot."""

    replaces = True

    def __init__(self, spec: Spec, key: str) -> None:
        super().__init__(spec)
        self._key = key
        self._retries = spec.errors.retry_topic is not None

    def _deletions(self) -> Deletions | None:
        return Deletions(self._log.store, self._key) if self._retries else None

    def write_files(self, rows: "DataFrame", attempt: Attempt) -> list[WrittenFile]:
        from pyspark.sql import functions as f

        deletions = self._deletions()
        latest = latest_rows(self._with_rows_before(rows, deletions), self._key)
        if deletions is not None:
            latest = latest.persist()
        try:
            kept = latest.where(~f.col(DELETED)).drop(DELETED)
            files = write_data_files(kept, self._task(kept.columns, attempt))
            if deletions is not None:
                deletions.write(latest.where(DELETED), attempt.id)
        finally:
            latest.unpersist()
        return files

    def _with_rows_before(self, batch: "DataFrame", deletions: Deletions | None) -> "DataFrame":
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = keyed_rows(batch, self._key)
        spark = batch.sparkSession
        names = self._log.files()
        if names:
            columns = self._log.arrow_schema()
            schema = from_arrow_schema(_plain(columns))
            ids = column_ids(columns)
            before = read_data_files(spark, self._log.store, names, schema, ids)
            rows = before.withColumn(DELETED, f.lit(False)).unionByName(
                rows, allowMissingColumns=True
            )
        last = self._log.last_attempt() if deletions is not None else None
        if deletions is not None and last is not None:
            deleted = deletions.rows(spark, last, batch.schema)
            if deleted is not None:
                rows = rows.unionByName(deleted, allowMissingColumns=True)
        return rows

    def commit(self, files: list[WrittenFile], attempt: Attempt) -> bool:
        return self._log.commit(files, attempt, replace=True)

    def committed(self, attempt: Attempt) -> None:
        super().committed(attempt)
        if (deletions := self._deletions()) is not None:
            deletions.keep_only(attempt.id)

    def discard(self, attempt: Attempt) -> None:
        super().discard(attempt)
        if (deletions := self._deletions()) is not None:
            deletions.discard(attempt.id)


def _arrow(schema: Any) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _plain(schema: Any) -> Any:
    """Without large types, which Spark does not know by default."""
    from pyiceberg.io.pyarrow import _pyarrow_schema_ensure_small_types

    return _pyarrow_schema_ensure_small_types(schema)
