"""The Parquet files of a table, written and read by Spark's tasks with pyarrow, on any store.

In: rows of Spark. Out: descriptions of files. And the other way round.
Always: only files of tasks that succeeded are returned: Spark collects the result of one attempt of
each task.
Not here: how a task writes (file_writer.py).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.lake.file_writer import (
    DAY,
    DESCRIPTION,
    WriterTask,
    WrittenFile,
    described,
    write_batches,
)
from barnabas.pipeline.lake.store import Store

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_BATCH = 64 * 1024
_FIELD_ID = b"PARQUET:field_id"


def write_data_files(rows: "DataFrame", task: WriterTask) -> list[WrittenFile]:
    """Writes one file per combination of partition values, not one per task and value."""
    from pyspark.sql import functions as f

    by = []
    for number, each in enumerate(task.partition_by):
        name = each.column
        if each.transform == DAY:
            name = f"__day_{number}"  # a hint takes columns only; the writer leaves this one out
            rows = rows.withColumn(name, f.to_date(f"`{each.column}`"))
        by.append(f.col(f"`{name}`"))
    rows = rows.hint("rebalance", *by)
    if any(each.transform != DAY and each.column != "date" for each in task.partition_by):
        rows = rows.sortWithinPartitions(*by)  # a task has one open file, for any number of values

    def write(batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        return write_batches(task, batches)

    found = rows.mapInArrow(write, DESCRIPTION).collect()
    return [described(*row) for row in found]


def read_data_files(
    spark: "SparkSession",
    store: Store,
    names: list[str],
    schema: Any,
    ids: Mapping[str, bytes] | None = None,
) -> "DataFrame":
    """The rows of files, with the columns of Spark's `schema`; null where a file has no such
    column. `ids`: of Iceberg's columns.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    target = to_arrow_schema(schema, timezone="UTC").serialize().to_pybytes()

    def read(batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        import pyarrow

        wanted = pyarrow.ipc.read_schema(pyarrow.py_buffer(target))
        for batch in batches:
            for name in batch.column(0).to_pylist():
                yield from read_file(store, name, wanted, ids=ids)

    listed = spark.createDataFrame([(name,) for name in names], "name string")
    return listed.repartition(max(len(names), 1)).mapInArrow(read, schema)


def read_file(
    store: Store,
    name: str,
    schema: "pyarrow.Schema",
    rows_filter: Any = None,
    ids: Mapping[str, bytes] | None = None,
) -> Iterator["pyarrow.RecordBatch"]:
    """The rows of a file as this schema has them. `ids`: of Iceberg's columns. A column that was
    renamed has another name in older files.
    """
    from pyarrow import dataset

    found = dataset.dataset(store.path(name), format="parquet", filesystem=store.filesystem)
    there = {each: each for each in found.schema.names}
    known = column_ids(found.schema)
    if ids and known:
        by_id = {id_: each for each, id_ in known.items()}
        there = {each: by_id[id_] for each, id_ in ids.items() if id_ in by_id}
    scanned = found.scanner(
        columns={each: dataset.field(there[each]) for each in schema.names if each in there},
        filter=rows_filter,
        batch_size=_ROWS_PER_BATCH,
        use_threads=False,
    )
    for batch in scanned.to_batches():
        if batch.num_rows:
            yield as_schema(batch, schema)


def column_ids(schema: "pyarrow.Schema") -> dict[str, bytes]:
    """Iceberg's ids of the columns that have one."""
    return {
        each.name: each.metadata[_FIELD_ID]
        for each in schema
        if each.metadata and _FIELD_ID in each.metadata
    }


def as_schema(batch: "pyarrow.RecordBatch", schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    """The batch with these columns and types; columns that it does not have are null."""
    import pyarrow

    columns = []
    for each in schema:
        at = batch.schema.get_field_index(each.name)
        if at < 0:
            columns.append(pyarrow.nulls(batch.num_rows, each.type))
        else:
            columns.append(batch.column(at).cast(each.type))
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
