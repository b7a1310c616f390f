"""Writes the rows of one task to Parquet files: what runs in an executor, without Spark's writer.

In: Arrow batches. Out: a description of each file: name, rows, size, partition values, footer.
Always: a file has rows of one combination of partition values, nulls included. At most
OPEN_FILES_MAX files are open, and the next file begins at FILE_SIZE bytes. Each attempt of a task
writes files with names of its own, so an attempt that fails, or that Spark runs twice, only leaves
files that no table names.
Not here: which tasks there are (data_files.py), what the files become part of (delta.py,
iceberg.py).
"""

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.store import Store, answer_of

if TYPE_CHECKING:
    import pyarrow

FILE_SIZE = 128 * 1024 * 1024
ROW_GROUP_SIZE = 64 * 1024 * 1024  # of Arrow's memory
OPEN_FILES_MAX = 16
DAY, IDENTITY = "day", "identity"


@dataclass(frozen=True)
class PartitionField:
    """A column that partitions the table: its value, or the day of its time."""

    column: str
    transform: str = IDENTITY
    in_file: bool = True  # Iceberg's files have the column, Delta's do not

    @property
    def text(self) -> str:
        return self.column if self.transform == IDENTITY else f"{self.transform}({self.column})"


@dataclass(frozen=True)
class WriterTask:
    """How a task writes. `schema`: Arrow's, serialized, of the rows."""

    store: Store
    directory: str
    schema: bytes
    partition_by: tuple[PartitionField, ...] = ()
    compression: str = "snappy"
    file_size: int = FILE_SIZE


@dataclass(frozen=True)
class WrittenFile:
    """A file that no table names yet. `values`: of the partition columns, as JSON has them."""

    name: str
    rows: int
    size: int
    values: tuple[Any, ...]
    footer: bytes = field(repr=False)

    def metadata(self) -> Any:
        """Parquet's own description of the file."""
        import pyarrow
        from pyarrow import parquet

        return parquet.read_metadata(pyarrow.BufferReader(self.footer))


class PartitionedFiles:
    """The open files of one task."""

    def __init__(self, task: WriterTask) -> None:
        import pyarrow

        self._task = task
        self._schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(task.schema))
        dropped = {each.column for each in task.partition_by if not each.in_file}
        self._file_schema = pyarrow.schema(
            [each for each in self._schema if each.name not in dropped]
        )
        self._open: OrderedDict[tuple[Any, ...], _OpenFile] = OrderedDict()
        self._attempt = uuid4().hex
        self._count = 0
        self.written: list[WrittenFile] = []

    def add(self, batch: "pyarrow.RecordBatch") -> None:
        import pyarrow

        rows = pyarrow.Table.from_batches([batch]).select(self._schema.names)
        for values, part in _by_partition(rows, self._task.partition_by):
            part = part.select(self._file_schema.names).cast(self._file_schema)
            file = self._file(values)
            file.add(part)
            if file.size >= self._task.file_size:
                self._finish(values)

    def _file(self, values: tuple[Any, ...]) -> "_OpenFile":
        if values in self._open:
            self._open.move_to_end(values)
        else:
            if len(self._open) >= OPEN_FILES_MAX:
                self._finish(next(iter(self._open)))
            name = f"{self._task.directory}/{self._attempt}-{self._count:05d}.parquet"
            self._count += 1
            self._open[values] = _OpenFile(self._task, name, values, self._file_schema)
        return self._open[values]

    def _finish(self, values: tuple[Any, ...]) -> None:
        self.written.append(self._open.pop(values).finish())

    def finish(self) -> None:
        while self._open:
            self._finish(next(iter(self._open)))

    def discard(self) -> None:
        """After an error. A file that cannot be deleted now is deleted with its attempt."""
        for each in self._open.values():
            each.discard()


class _OpenFile:
    """One file. Rows are collected until they fill a row group."""

    def __init__(
        self, task: WriterTask, name: str, values: tuple[Any, ...], schema: "pyarrow.Schema"
    ) -> None:
        from pyarrow import parquet

        self._store = task.store
        self.name = name
        self._values = values
        self._footers: list[Any] = []
        self._stream = task.store.open_output(name)
        self._writer = parquet.ParquetWriter(
            self._stream,
            schema,
            compression=task.compression,
            store_schema=False,
            write_statistics=_with_bounds(schema) or False,
            metadata_collector=self._footers,
        )
        self._waiting: list[Any] = []
        self._waiting_size = 0
        self.rows = 0

    @property
    def size(self) -> int:
        """So far; rows that wait are not compressed yet."""
        written: int = self._stream.tell()
        return written

    def add(self, rows: "pyarrow.Table") -> None:
        self._waiting.append(rows)
        self._waiting_size += rows.nbytes
        self.rows += rows.num_rows
        if self._waiting_size >= ROW_GROUP_SIZE:
            self._write_waiting()

    def _write_waiting(self) -> None:
        import pyarrow

        if self._waiting:
            rows = pyarrow.concat_tables(self._waiting)
            self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
        self._waiting, self._waiting_size = [], 0

    def finish(self) -> WrittenFile:
        import pyarrow

        self._write_waiting()
        self._writer.close()
        size = self.size
        self._stream.close()
        footer = pyarrow.BufferOutputStream()
        self._footers[0].write_metadata_file(footer)
        return WrittenFile(self.name, self.rows, size, self._values, footer.getvalue().to_pybytes())

    def discard(self) -> None:
        try:
            self._writer.close()
            self._stream.close()
            self._store.delete_file(self.name)
        except OSError:
            pass  # the store may be the reason for the error


def _with_bounds(schema: "pyarrow.Schema") -> list[str]:
    """Columns whose smallest and largest value are stored; payloads could make footers large."""
    from pyarrow import types

    return [
        each.name
        for each in schema
        if not types.is_nested(each.type)
        and not types.is_binary(each.type)
        and not types.is_large_binary(each.type)
    ]


def has_bounds(type_: Any) -> bool:
    import pyarrow

    return bool(_with_bounds(pyarrow.schema([("column", type_)])))


def write_batches(
    task: WriterTask, batches: Iterator["pyarrow.RecordBatch"]
) -> Iterator["pyarrow.RecordBatch"]:
    """Writes the rows of a task; yields a row per file (DESCRIPTION)."""
    import pyarrow

    files = PartitionedFiles(task)
    try:
        for batch in batches:
            if batch.num_rows:
                files.add(batch)
        files.finish()
    except BaseException as problem:
        files.discard()
        if isinstance(problem, OSError):
            raise PipelineError(f"{task.store.uri}: {answer_of(problem)}") from None
        raise
    found = files.written
    yield pyarrow.RecordBatch.from_arrays(
        [
            pyarrow.array([each.name for each in found], pyarrow.string()),
            pyarrow.array([each.rows for each in found], pyarrow.int64()),
            pyarrow.array([each.size for each in found], pyarrow.int64()),
            pyarrow.array([json.dumps(each.values) for each in found], pyarrow.string()),
            pyarrow.array([each.footer for each in found], pyarrow.binary()),
        ],
        names=["name", "rows", "size", "part", "footer"],
    )


DESCRIPTION = "name string, rows long, size long, part string, footer binary"


def described(name: str, rows: int, size: int, part: str, footer: bytes) -> WrittenFile:
    """A row of `write_batches`."""
    return WrittenFile(name, rows, size, tuple(json.loads(part)), bytes(footer))


def _by_partition(
    rows: "pyarrow.Table", fields: tuple[PartitionField, ...]
) -> Iterator[tuple[tuple[Any, ...], "pyarrow.Table"]]:
    """The rows of each combination of values."""
    from pyarrow import compute

    if not fields or not rows.num_rows:
        yield (), rows
        return
    codes: Any = None
    encoded = []
    for each in fields:
        keys = _keys(rows.column(each.column), each)
        found = compute.dictionary_encode(keys, null_encoding="encode").combine_chunks()
        if hasattr(found, "chunks"):
            found = found.chunk(0)
        encoded.append(found)
        if codes is None:
            codes = compute.cast(found.indices, "int64")
        else:
            step = len(found.dictionary)
            codes = compute.add(compute.multiply(codes, step), compute.cast(found.indices, "int64"))
    groups = compute.unique(codes).to_pylist()
    for code in groups:
        here = rows if len(groups) == 1 else rows.filter(compute.equal(codes, code))
        yield _values(code, encoded), here


def _keys(column: Any, field_: PartitionField) -> Any:
    from pyarrow import compute

    if field_.transform == DAY:
        days = column
        if str(column.type).startswith("timestamp"):
            days = compute.floor_temporal(column, unit="day")
        return compute.cast(compute.cast(days, "date32"), "int32")
    return column


def _values(code: int, encoded: list[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in reversed(encoded):
        code, number = divmod(code, len(each.dictionary))
        found.append(plain(each.dictionary[number].as_py()))
    return tuple(reversed(found))


def plain(value: Any) -> Any:
    """A partition value as JSON has it: numbers, text and booleans stay; others become text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
