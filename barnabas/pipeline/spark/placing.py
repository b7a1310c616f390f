"""Gives each target partition to one task: what exactly once on Apache Kafka needs.

In: a DataFrame as for a write, and the options of the sink. Out: the same rows, with a column
`partition`, and all rows of a partition in one task.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.spark.options import sink_options

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


def by_target_partition(rows: "DataFrame", options: Mapping[str, Any]) -> "DataFrame":
    """The order of rows is not kept: they are shuffled."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    given = {name: str(value) for name, value in options.items()}
    fields = [field for field in rows.schema.fields if field.name != "partition"]
    schema = StructType([*fields, StructField("partition", IntegerType(), True)])

    def place(batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        import pyarrow

        from barnabas.pipeline.spark.writing import Writing

        writing: Writing | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            writing = writing or Writing(sink_options(given))
            column = pyarrow.array(writing.partitions_of(batch), pyarrow.int32())
            columns = {field.name: batch.column(field.name) for field in fields}
            yield pyarrow.record_batch({**columns, "partition": column})

    placed = rows.mapInArrow(place, schema)
    keys = ["topic", "partition"] if "topic" in rows.columns else ["partition"]
    return placed.repartition(*keys)
