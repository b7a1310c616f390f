"""Delta tables: every row, or the latest row of each key.

In: the rows of a batch, and its identity. Out: commits.
Always: an attempt to write a batch has a directory of its own, QUERY-VERSION-RANDOM. No directory
is deleted that the log may name: only attempts for a version that this process has just committed,
and this process's own attempt if its commit was refused.
Not here: Delta's log (delta.py).
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.delta import NONE, DeltaLog
from barnabas.pipeline.lake.files import read_files, write_files
from barnabas.pipeline.run.rows import DELETED, rows_from
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity
from barnabas.pipeline.spark.files import local_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Shape = Callable[[DataFrame], DataFrame]

# Deletions, for rows that come later from the retry topic. Delta's vacuum ignores such names.
_DELETIONS = "_deletions"
_COMMITS_MAX = 20


class DeltaTable:
    """A commit per batch. The data files stay in a directory per attempt until they are
    compacted.
    """

    def __init__(self, spec: Spec) -> None:
        path = local_path(str(spec.sink.path))
        assert path is not None  # the spec was checked
        self._path = Path(path)
        self._columns = list(spec.sink.partition_by)
        self._options = spec.sink.options
        self._log = DeltaLog(str(self._path), self._columns)

    def check(self, schema: Any) -> None:
        """PipelineError, in one line, if the columns do not fit the existing table."""
        self._log.check(schema)

    def has(self, identity: BatchIdentity) -> bool:
        return self._log.exists() and not identity.remaining(self._log.done(identity)[1])

    def write(self, batch: "DataFrame", shape: "Shape", identity: BatchIdentity) -> None:
        """Adds the rows that the table does not have. `shape`: from rows of the source to rows of
        the table.
        """
        for _ in range(_COMMITS_MAX):
            if self._wrote(batch, shape, identity):
                return
        raise PipelineError(
            f"sink.path: {self._path}: {_COMMITS_MAX} commits of batch {identity.number} were"
            " refused because of other commits: does another program write to this table?"
        )

    def _wrote(self, batch: "DataFrame", shape: "Shape", identity: BatchIdentity) -> bool:
        """False: another driver committed in between."""
        self._log.open(shape(batch).drop(DELETED).schema)
        last, done = self._log.done(identity)
        remaining = identity.remaining(done)
        if not remaining:
            return True
        version = identity.number if last == NONE else last + 1
        attempt = f"{identity.query}-{version:09d}-{uuid4().hex}"
        rows = shape(rows_from(batch, identity, remaining))
        try:
            self._write_rows(rows, attempt)
            won = self._commit(attempt, identity, version)
        except Exception:
            self._log.reopen()
            if self._log.done(identity)[0] != last:
                self._delete(attempt)
                return False  # the other driver has deleted the files
            raise
        if won:
            for other in os.listdir(self._path):
                if other.startswith(f"{identity.query}-{version:09d}-") and other != attempt:
                    self._delete(other)
            self._tidy(attempt, version)
        else:
            self._delete(attempt)
        return won

    def _delete(self, name: str) -> None:
        shutil.rmtree(self._path / name, ignore_errors=True)

    def _uri(self, name: str) -> str:
        return f"file:{self._path}/{name}"

    def _write_rows(self, rows: "DataFrame", attempt: str) -> None:
        write_files(rows, self._uri(attempt), self._columns, self._options)

    def _commit(self, attempt: str, identity: BatchIdentity, version: int) -> bool:
        return self._log.commit(attempt, identity, version)

    def _tidy(self, attempt: str, version: int) -> None:
        self._log.join_small_files(version)


class LatestTable(DeltaTable):
    """A row per key: each batch replaces the table.

    With a retry topic, deletions are kept beside the table, one small row per deleted key: an older
    row of the key may still come from the retry topic, and must stay deleted.
    """

    def __init__(self, spec: Spec, key: str) -> None:
        super().__init__(spec)
        self._key = key
        self._retries = spec.errors.retry_topic is not None

    def _write_rows(self, rows: "DataFrame", attempt: str) -> None:
        from pyspark.sql import functions as f

        latest = latest_rows(self._with_rows_before(rows), self._key)
        if self._retries:
            latest = latest.persist()
        try:
            kept = latest.where(~f.col(DELETED)).drop(DELETED)
            write_files(kept, self._uri(attempt), self._columns, self._options)
            if self._retries:
                places = [self._key, "_topic", "_partition", "_offset", "_ts"]
                deleted = latest.where(DELETED).select(*places)
                write_files(deleted, self._uri(f"{attempt}/{_DELETIONS}"), [], {})
        finally:
            latest.unpersist()

    def _with_rows_before(self, batch: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        said = f.format_string(
            "%s-%d, offset %d has no key: a table of the latest row of each key needs one",
            "_topic", "_partition", "_offset",
        )  # fmt: skip
        keyed = f.when(f.col(self._key).isNotNull(), True).otherwise(
            f.raise_error(said).cast("boolean")
        )
        rows = batch.where(keyed)
        spark = batch.sparkSession
        before = self._log.rows(spark)
        if before is not None:
            rows = before.withColumn(DELETED, f.lit(False)).unionByName(
                rows, allowMissingColumns=True
            )
        if self._retries:
            for directory in sorted(self._log.directories()):
                if (self._path / directory / _DELETIONS).is_dir():
                    deleted = read_files(spark, [self._uri(f"{directory}/{_DELETIONS}")])
                    rows = rows.unionByName(
                        deleted.withColumn(DELETED, f.lit(True)), allowMissingColumns=True
                    )
        return rows

    def _commit(self, attempt: str, identity: BatchIdentity, version: int) -> bool:
        return self._log.commit(attempt, identity, version, replace=True)

    def _tidy(self, attempt: str, version: int) -> None:
        for other in os.listdir(self._path):
            if other != attempt:
                self._delete(f"{other}/{_DELETIONS}")
        self._log.forget_old_files(version)


def latest_rows(rows: "DataFrame", key: str) -> "DataFrame":
    """The last row of each key by offset; by time if the key is in several partitions."""
    from pyspark.sql import functions as f

    order = list(rows.columns)
    last = _last(rows, [key, "_topic", "_partition"], f.col("_offset"))
    return _last(last, [key], f.struct("_ts", "_offset")).select(order)


def _last(rows: "DataFrame", of: list[str], by: "Column") -> "DataFrame":
    from pyspark.sql import functions as f

    rest = f.struct(*(column for column in rows.columns if column not in of))
    found = rows.groupBy(*of).agg(f.max_by(rest, by).alias("last"))
    return found.select(*of, "last.*")
