"""A topic as a table of files: each record exactly once, or the latest record of each key.

In: the batches of a query. Out: a directory of Parquet files, or a Delta table.
Always: the bad rows of a batch are written before it is in the table. A table knows the offsets up
to which it has rows (pipeline/spark/batch_identity.py): a row that it has is never written again,
neither in another batch nor by another driver.
Not here: the tables (parquet.py, delta_table.py), the order of the steps (batch_commit.py), bad
rows (pipeline/run/dead_letters.py).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.pipeline.errors import PipelineError, one_line
from barnabas.pipeline.lake.batch_commit import LakeTable, has_batch, write_batch
from barnabas.pipeline.lake.delta_table import DeltaTable, LatestTable
from barnabas.pipeline.lake.parquet import ParquetTable
from barnabas.pipeline.run.dead_letters import BadRowWriter, query_of
from barnabas.pipeline.run.roster import directory as state_directory
from barnabas.pipeline.run.rows import DELETED, good_rows, rows_from
from barnabas.pipeline.run.spec import LATEST, Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity, known_ids, partition_key
from barnabas.pipeline.spark.files import directory_of, path_parts
from barnabas.pipeline.spark.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SESSION = {
    # Spark turns it off for streams that keep state; these batches keep none. With it, Spark joins
    # small partitions and splits large ones before it writes files.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128MB",
    # Every reader supports this type; Spark's default is a deprecated type of Hive.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def lake_writer(
    spec: Spec,
    rows: "DataFrame",
    identify: Callable[[str, int], BatchIdentity],
    letters: BadRowWriter | None,
    publish: Callable[[int], None] | None = None,
    phases_ms: dict[str, int] | None = None,
) -> Any:
    """Writes rows as the source returns them. `publish`: called with the number of a batch before
    anything of it is written. `phases_ms`: gets how long the phases of a batch took.
    """
    table = table_of(spec, rows.sparkSession)

    def shape(batch: "DataFrame") -> "DataFrame":
        return shaped(spec, batch)

    table.check(shape(rows).drop(DELETED).schema)

    @one_line
    def write(batch: "DataFrame", number: int) -> None:
        spark = batch.sparkSession
        identity = identify(query_of(spark), number)
        for name, value in SESSION.items():
            spark.conf.set(name, value)
        if publish is not None:
            publish(number)
        if has_batch(table, identity):
            return
        if letters is not None:
            letters.write(batch, number)
        took_ms = write_rows(table, batch, shape, identity)
        if phases_ms is not None:
            phases_ms.update(took_ms)

    return rows.writeStream.foreachBatch(write)


def write_rows(
    table: LakeTable,
    batch: "DataFrame",
    shape: Callable[["DataFrame"], "DataFrame"],
    identity: BatchIdentity,
) -> dict[str, int]:
    """Adds a batch. `shape`: from rows of the source to rows of the table."""
    schema = shape(batch).drop(DELETED).schema
    return write_batch(
        table,
        identity,
        schema,
        lambda remaining: shape(rows_from(batch, identity, remaining)),
    )


def table_of(spec: Spec, spark: "SparkSession") -> LakeTable:
    if spec.sink.format == "parquet":
        return ParquetTable(spec, directory_of(spark, str(spec.sink.path)))
    if spec.sink.format == "iceberg":
        from barnabas.pipeline.lake.iceberg_table import IcebergTable, LatestIcebergTable

        is_latest = spec.sink.keep == LATEST
        return LatestIcebergTable(spec, key_of(spec)) if is_latest else IcebergTable(spec)
    if spec.sink.keep == LATEST:
        return LatestTable(spec, key_of(spec))
    return DeltaTable(spec)


def local_checkpoint(spec: Spec) -> tuple[Spec, Callable[[int], None] | None]:
    """The spec with a checkpoint that Spark can use. If it is kept on S3: a copy in a directory of
    this machine, and what publishes a batch of it.
    """
    where = spec.run.checkpoint
    if where is None or path_parts(where).scheme not in ("s3", "s3a"):
        return spec, None
    from barnabas.pipeline.lake.remote_checkpoint import RemoteCheckpoint

    directory = state_directory().parent / "checkpoints" / spec.name
    remote = RemoteCheckpoint(where, directory)
    remote.fetch()
    return replace(spec, run=replace(spec.run, checkpoint=str(directory))), remote.publish


def table_offsets(spec: Spec, begin: Offsets, topic_ids: Mapping[str, UUID]) -> Offsets:
    """Where a new checkpoint begins: where the table ends, for partitions that it has rows of. A
    table of Parquet files belongs to one checkpoint.
    """
    if spec.kind != "lake" or spec.sink.format == "parquet":
        return begin
    ids = known_ids(topic_ids)
    keys = {at: partition_key(at, ids) for at in begin}
    table: Any
    if spec.sink.format == "iceberg":
        from barnabas.pipeline.lake.iceberg_table import IcebergTable

        table = IcebergTable(spec)
    else:
        table = DeltaTable(spec)
    found = table.offsets(list(keys.values()))
    return {at: found.get(keys[at], offset) for at, offset in begin.items()}


def shaped(spec: Spec, rows: "DataFrame") -> "DataFrame":
    """The good rows, with the columns of the table."""
    from pyspark.sql import functions as f

    rows = good_rows(spec, rows)
    columns = list(spec.sink.partition_by)
    check_names(rows.columns, columns, spec.sink.format)
    if spec.sink.format == "iceberg":
        return rows  # the table has a partition for each day by itself
    if "date" in columns and "date" not in rows.columns:
        rows = rows.withColumn("date", f.to_date("_ts"))
    for column in columns:
        if column not in rows.columns:
            raise PipelineError(
                f"sink.partition_by: there is no column {column!r}; the columns are"
                f" {', '.join(rows.columns)}"
            )
    return rows


def check_names(names: Iterable[str], columns: list[str], format_: str) -> None:
    """PipelineError for columns that a reader of the table could not tell apart: Spark and many
    other readers ignore the case of names.
    """
    seen: dict[str, str] = {}
    reserved = {"batch": "the name of a directory in the table"} if format_ == "parquet" else {}
    if "date" in columns:
        reserved["date"] = "the day of the record, by which the table is partitioned"
    for name in names:
        low = name.lower()
        if low in seen:
            raise PipelineError(
                f"source.schema: the columns {seen[low]!r} and {name!r} differ only in case, or"
                " not at all (_topic, _partition, _offset, _ts, _key and _deleted are added to"
                " each row): rename one of them"
            )
        seen[low] = name
        if low in reserved and name != "date":
            raise PipelineError(
                f"source.schema: the column {name!r} would be hidden by {low!r}, {reserved[low]}:"
                " rename the column"
                + (", or set sink.partition_by" if low == "date" else ", or set format to delta")
            )


def key_of(spec: Spec) -> str:
    """The column that has the record's key."""
    return "key" if spec.source.format == "bytes" else "_key"
