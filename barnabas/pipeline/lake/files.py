"""Parquet files in directories of Spark's file systems, written by Spark itself."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FILE_MAX = 1_000_000


def write_files(rows: "DataFrame", path: str, columns: list[str], options: dict[str, str]) -> None:
    """Writes one file per value of the columns, not one per task and value, unless the file gets
    too large.
    """
    writer = rows.hint("rebalance", *columns).write.mode("overwrite")
    writer = writer.option("maxRecordsPerFile", ROWS_PER_FILE_MAX)
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer = writer.options(**options)
    if columns:
        writer = writer.partitionBy(*columns)
    writer.parquet(path)
