"""Each order once, though its producer sent it twice within ten minutes.

A transform of a pipeline, as in late_counts.py.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def once(orders: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    unique = orders.withWatermark("_ts", "10 minutes").dropDuplicatesWithinWatermark(["id"])
    return unique.select(
        f.col("customer").cast("string").alias("key"),
        f.to_json(f.struct("id", "customer", "amount")).alias("value"),
    )
