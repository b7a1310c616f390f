"""The log of a Delta table, written with delta-rs: without a jar, and without reading rows.

In: directories of Parquet files that Spark has written below the table. Out: commits.
Always: files become part of the table in one commit together with Delta's transaction identifiers:
QUERY, with a version that rises by one; QUERY/end, a digest of the batch's end offsets; and for
each partition QUERY/TOPIC-ID/PARTITION, the offset up to which the table has rows. So a row is in
the table once, and a batch that is half written is not in it at all. Of two drivers that commit at
the same time, one is refused.
Not here: the files (lake.py).
"""

import json
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.files import read_files
from barnabas.pipeline.spark.batch_identity import BatchIdentity, digest, partition_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_SIZE = 128 * 1024 * 1024
JOIN_EVERY = 10  # batches
NONE = -1  # the version of a query that the table has no rows of
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def deltalake_or_why() -> Any:
    """The module deltalake. PipelineError, which says how to install it, if it is missing."""
    try:
        import deltalake
    except ImportError:
        raise PipelineError(
            "deltalake is not installed: pip install 'barnabas[delta]', or set sink.format to"
            " parquet"
        ) from None
    return deltalake


class DeltaLog:
    """The log of one table, which has one writer at a time."""

    def __init__(self, path: str, columns: list[str]) -> None:
        self._delta = deltalake_or_why()
        self._path = path
        self._columns = columns
        self._table: Any = None
        self._schema: Any = None

    def check(self, schema: Any) -> None:
        """PipelineError if the table exists and does not accept rows of this schema."""
        if not self._delta.DeltaTable.is_deltatable(self._path):
            if os.path.isdir(self._path) and os.listdir(self._path):
                raise PipelineError(
                    f"sink.path: {self._path} has files but is not a Delta table: use another path"
                )
            return
        table = self._delta.DeltaTable(self._path)
        there = list(table.metadata().partition_columns)
        if there != self._columns:
            raise PipelineError(
                f"sink.partition_by: the table in {self._path} has {', '.join(there) or 'none'},"
                f" not {', '.join(self._columns) or 'none'}: use another path"
            )
        types = _types(table.schema())
        for name, type_ in _types(self._delta.Schema.from_json(schema.json())).items():
            if types.get(name, type_) != type_:
                raise PipelineError(
                    f"column {name} is {types[name]} in the table in {self._path}, and"
                    f" {type_} in the spec: a column cannot change its type; use another name"
                )

    def open(self, schema: Any) -> None:
        """The current table. Creates the table if there is none, and adds new columns."""
        self._schema = self._delta.Schema.from_json(schema.json())
        self._table = self._delta.DeltaTable.create(
            self._path, self._schema, mode="ignore", partition_by=self._columns
        )
        there = _types(self._table.schema())
        added = [field for field in self._schema.fields if field.name not in there]
        if added:
            self._table.alter.add_columns(added)
            self._table.update_incremental()

    def exists(self) -> bool:
        """Whether there is a table. It is open then, as it is now."""
        if not self._delta.DeltaTable.is_deltatable(self._path):
            return False
        self._table = self._delta.DeltaTable(self._path)
        return True

    def reopen(self) -> None:
        self._table.update_incremental()

    def done(self, identity: BatchIdentity) -> tuple[int, dict[str, int]]:
        """The last version of a query, and up to where the table has rows of it, of the partitions
        of this batch. The table stores numbers only, so each partition has one; reading them takes
        milliseconds each, so they are read only if the table does not end where the batch begins.
        """
        last = self._table.transaction_version(identity.query)
        if last is None:
            return NONE, {}
        end = self._table.transaction_version(f"{identity.query}/end")
        if end == digest(identity.start, identity.topic_ids):
            ids = identity.topic_ids
            return last, {partition_key(at, ids): o for at, o in identity.start.items()}
        found = {}
        for key in identity.keys().values():
            offset = self._table.transaction_version(f"{identity.query}/{key}")
            if offset is not None:
                found[key] = offset
        return last, found

    def rows(self, spark: "SparkSession") -> "DataFrame | None":
        """All rows of the table, which has no partitions; None if it is empty."""
        from pyspark.sql.types import StructType

        files = self._files()
        if not files:
            return None
        schema = StructType.fromJson(json.loads(self._table.schema().to_json()))
        return read_files(spark, [f"file:{self._path}/{name}" for name in files], schema)

    def commit(
        self, directory: str, identity: BatchIdentity, version: int, *, replace: bool = False
    ) -> bool:
        """Adds the files of a directory to the table, or puts them in the place of all others.
        False, and nothing is changed, if another program committed for this query since `open`:
        Delta refuses two concurrent transactions with one identifier.
        """
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import CommitProperties, Transaction

        now_ms = int(time.time() * 1000)
        numbers = {identity.query: version}
        numbers[f"{identity.query}/end"] = digest(identity.end, identity.topic_ids)
        _, done = self.done(identity)
        for key, offset in identity.done_after(done).items():
            if done.get(key) != offset:
                numbers[f"{identity.query}/{key}"] = offset
        try:
            self._table.create_write_transaction(
                self._added(directory, at_least_one=replace),
                "overwrite" if replace else "append",
                self._table.schema(),
                self._columns,
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(n, v, now_ms) for n, v in numbers.items()],
                    custom_metadata={"barnabas.batch": json.dumps(identity.document())},
                ),
            )
        except CommitFailedError:
            return False
        self._table.update_incremental()
        return True

    def directories(self) -> set[str]:
        """The first part of the path of each file in the table."""
        return {name.split(os.sep)[0] for name in self._files()}

    def _files(self) -> list[str]:
        root = os.path.join(self._path, "")
        return [unquote(uri).removeprefix(root) for uri in self._table.file_uris()]

    def _added(self, directory: str, *, at_least_one: bool) -> list[Any]:
        """`at_least_one`: also a file without rows, if there is no other."""
        from deltalake.transaction import AddAction
        from pyarrow import parquet

        found: list[Any] = []
        for where, below, names in os.walk(os.path.join(self._path, directory)):
            below[:] = sorted(name for name in below if not name.startswith("_"))
            for name in sorted(names):
                if not name.endswith(".parquet"):
                    continue
                path = os.path.join(where, name)
                rows = parquet.read_metadata(path).num_rows
                if not rows and not (at_least_one and not found):
                    continue
                status = os.stat(path)
                relative = os.path.relpath(path, self._path)
                found.append(
                    AddAction(
                        path=relative,
                        size=status.st_size,
                        partition_values=_values(relative, self._columns),
                        modification_time=int(status.st_mtime * 1000),
                        data_change=True,
                        stats=json.dumps({"numRecords": rows}),
                    )
                )
        return found

    def join_small_files(self, number: int) -> None:
        """Cleans up from time to time, in this process. Files that a killed process left are in no
        commit.
        """
        if number % JOIN_EVERY == JOIN_EVERY - 1:
            self._table.optimize.compact(target_size=FILE_SIZE)
            self._table.vacuum(dry_run=False)

    def forget_old_files(self, number: int) -> None:
        """Deletes files that left the table over a week ago
        (delta.deletedFileRetentionDuration).
        """
        if number % JOIN_EVERY == JOIN_EVERY - 1:
            self._table.vacuum(dry_run=False)


def _types(schema: Any) -> dict[str, str]:
    return {field.name: _text(json.loads(field.type.to_json())) for field in schema.fields}


def _text(type_: Any) -> str:
    return type_ if isinstance(type_, str) else json.dumps(type_, sort_keys=True)


def _values(path: str, columns: list[str]) -> dict[str, str | None]:
    """Spark names directories COLUMN=VALUE, and writes characters that file names cannot have as
    %XX.
    """
    parts = dict(part.split("=", 1) for part in path.split(os.sep)[:-1] if "=" in part)
    found = {unquote(name): unquote(value) for name, value in parts.items()}
    return {name: None if found[name] == _NO_VALUE else found[name] for name in columns}
