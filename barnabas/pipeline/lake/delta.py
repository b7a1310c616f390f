"""The log of a Delta table, written with delta-rs: no jar, and no row passes through here.

In: directories of Parquet files that Spark has written below the table. Out: commits.
Always: files become part of the table in one commit together with the query and the number of the
batch (Delta's transaction identifiers), so that a batch is in the table once; one that is half
written is not in it at all.
Not here: the files (lake.py).
"""

import json
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from barnabas.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_SIZE = 128 * 1024 * 1024
JOIN_EVERY = 10  # batches
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def deltalake_or_why() -> Any:
    """The module; PipelineError that says how to get it."""
    try:
        import deltalake
    except ImportError:
        raise PipelineError(
            "deltalake is not installed: pip install 'barnabas[delta]', or set sink.format to"
            " parquet"
        ) from None
    return deltalake


class DeltaLog:
    """Of one table, which has one writer at a time."""

    def __init__(self, path: str, columns: list[str]) -> None:
        self._delta = deltalake_or_why()
        self._path = path
        self._columns = columns
        self._table: Any = None
        self._schema: Any = None

    def check(self, schema: Any) -> None:
        """PipelineError unless rows of this schema go into the table, if there is one."""
        if not self._delta.DeltaTable.is_deltatable(self._path):
            if os.path.isdir(self._path) and os.listdir(self._path):
                raise PipelineError(
                    f"sink.path: {self._path} has files, and is no Delta table: name another"
                )
            return
        table = self._delta.DeltaTable(self._path)
        there = list(table.metadata().partition_columns)
        if there != self._columns:
            raise PipelineError(
                f"sink.partition_by: the table in {self._path} has {', '.join(there) or 'none'},"
                f" not {', '.join(self._columns) or 'none'}: name another path"
            )
        types = _types(table.schema())
        for name, type_ in _types(self._delta.Schema.from_json(schema.json())).items():
            if types.get(name, type_) != type_:
                raise PipelineError(
                    f"column {name} is {types[name]} in the table in {self._path}, and"
                    f" {type_} in the spec: a column keeps its type; give it another name"
                )

    def open(self, schema: Any) -> None:
        """The table as it is now; made if there is none, with columns added if there are new."""
        self._schema = self._delta.Schema.from_json(schema.json())
        self._table = self._delta.DeltaTable.create(
            self._path, self._schema, mode="ignore", partition_by=self._columns
        )
        there = _types(self._table.schema())
        added = [field for field in self._schema.fields if field.name not in there]
        if added:
            self._table.alter.add_columns(added)
            self._table.update_incremental()

    def has(self, query: str, number: int) -> bool:
        last = self._table.transaction_version(query)
        return last is not None and last >= number

    def rows(self, spark: "SparkSession") -> "DataFrame | None":
        """All that is in the table, which has no partitions; None if there is nothing."""
        from pyspark.sql.types import StructType

        files = self._table.file_uris()
        if not files:
            return None
        schema = StructType.fromJson(json.loads(self._table.schema().to_json()))
        return spark.read.schema(schema).parquet(*(f"file://{path}" for path in files))

    def add(self, directory: str, query: str, number: int) -> None:
        """The files of a directory of the table: they are in it from now on."""
        self._write("append", directory, query, number)

    def replace(self, directory: str, query: str, number: int) -> None:
        """The files of a directory in place of all that are in the table."""
        self._write("overwrite", directory, query, number)

    def _write(self, mode: str, directory: str, query: str, number: int) -> None:
        from deltalake.transaction import CommitProperties, Transaction

        self._table.create_write_transaction(
            self._added(directory),
            mode,
            self._table.schema(),
            self._columns,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(query, number, int(time.time() * 1000))]
            ),
        )
        self._table.update_incremental()

    def _added(self, directory: str) -> list[Any]:
        from deltalake.transaction import AddAction
        from pyarrow import parquet

        found = []
        for where, _, names in os.walk(os.path.join(self._path, directory)):
            for name in sorted(names):
                if not name.endswith(".parquet"):
                    continue
                path = os.path.join(where, name)
                rows = parquet.read_metadata(path).num_rows
                if not rows:
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
        """Now and then, in this process; what a killed one has half written is in no commit."""
        if number % JOIN_EVERY == JOIN_EVERY - 1:
            self._table.optimize.compact(target_size=FILE_SIZE)
            self._table.vacuum(dry_run=False)

    def forget_old_files(self, number: int) -> None:
        """Those that have not been in the table for a week (delta.deletedFileRetentionDuration)."""
        if number % JOIN_EVERY == JOIN_EVERY - 1:
            self._table.vacuum(dry_run=False)


def _types(schema: Any) -> dict[str, str]:
    return {field.name: _text(json.loads(field.type.to_json())) for field in schema.fields}


def _text(type_: Any) -> str:
    return type_ if isinstance(type_, str) else json.dumps(type_, sort_keys=True)


def _values(path: str, columns: list[str]) -> dict[str, str | None]:
    """Spark names directories COLUMN=VALUE, with what a file name cannot have as %XX."""
    parts = dict(part.split("=", 1) for part in path.split(os.sep)[:-1] if "=" in part)
    found = {unquote(name): unquote(value) for name, value in parts.items()}
    return {name: None if found[name] == _NO_VALUE else found[name] for name in columns}
