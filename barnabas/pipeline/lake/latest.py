"""The latest row of each key: how it is chosen, and how deletions are remembered.

In: rows with a key, of the table and of a batch. Out: the rows that the table has next.
Always: a deletion is kept beside the table, one small row per deleted key, if the pipeline has a
retry topic: an older row of the key may still come from there, and must stay deleted.
"""

from typing import TYPE_CHECKING, Any

from barnabas.pipeline.lake.data_files import read_data_files, write_data_files
from barnabas.pipeline.lake.file_writer import WriterTask
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.rows import DELETED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DIRECTORY = "_deletions"  # Delta's vacuum ignores such names
_PLACE = ("_topic", "_partition", "_offset", "_ts")


class Deletions:
    """The deleted keys of a table, in a directory per attempt."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._columns = [key, *_PLACE]

    def write(self, deleted: "DataFrame", attempt: str) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        rows = deleted.select(*self._columns)
        schema = to_arrow_schema(rows.schema, timezone="UTC").serialize().to_pybytes()
        write_data_files(rows, WriterTask(self._store, f"{_DIRECTORY}/{attempt}", schema))

    def rows(self, spark: "SparkSession", attempt: str, schema: Any) -> "DataFrame | None":
        """The deletions of an attempt; `schema`: of a batch, for the types."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        names = [name for name, _, _ in self._store.files(f"{_DIRECTORY}/{attempt}")]
        if not names:
            return None
        columns = StructType([schema[name] for name in self._columns])
        found = read_data_files(spark, self._store, names, columns)
        return found.withColumn(DELETED, f.lit(True))

    def keep_only(self, attempt: str) -> None:
        for other in self._store.names(_DIRECTORY):
            if other != attempt:
                self.discard(other)

    def discard(self, attempt: str) -> None:
        self._store.delete(f"{_DIRECTORY}/{attempt}")


def keyed_rows(batch: "DataFrame", key: str) -> "DataFrame":
    """The rows; one without a key ends the query."""
    from pyspark.sql import functions as f

    said = f.format_string(
        "%s-%d, offset %d has no key: a table of the latest row of each key needs one",
        "_topic", "_partition", "_offset",
    )  # fmt: skip
    return batch.where(
        f.when(f.col(key).isNotNull(), True).otherwise(f.raise_error(said).cast("boolean"))
    )


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
