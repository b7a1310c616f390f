"""Writes the result of a query as Arrow or Parquet, with the types that DuckDB gives.

In: a DuckDB relation, an open file. Out: the number of rows. Always: about GROUP_BYTES of the
result are in memory at a time.
"""

import os
from typing import IO, Any, Protocol

import pyarrow as pa

SAVED_AS = ("arrow", "parquet")
GROUP_BYTES = 32 << 20
_BATCH_ROWS = 2_048


class TableWriter(Protocol):
    def write_table(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


def save_rows(relation: Any, save_as: str, fd: int) -> int:
    """`fd` is closed."""
    rows = 0
    with os.fdopen(fd, "wb") as file:
        reader = relation.to_arrow_reader(_BATCH_ROWS)
        writer = _writer(save_as, file, reader.schema)
        pending: list[pa.RecordBatch] = []
        size = 0
        for batch in reader:
            pending.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if size >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(pending))
                pending, size = [], 0
        if pending:
            writer.write_table(pa.Table.from_batches(pending))
        writer.close()
    return rows


def _writer(save_as: str, file: IO[bytes], schema: pa.Schema) -> TableWriter:
    writer: TableWriter
    if save_as == "parquet":
        from pyarrow import parquet

        writer = parquet.ParquetWriter(file, schema, compression="zstd")
    else:
        writer = pa.ipc.new_stream(file, schema)
    return writer
