"""Orders per customer and minute. A record up to ten minutes late is still counted in its minute.

A transform of a pipeline: rows in with the columns of the value and `_ts`, the record's time; rows
out with a `value` for the topic. A minute is written once, when no record can change it any more.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def per_minute(orders: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    counted = (
        orders.withWatermark("_ts", "10 minutes")
        .groupBy(f.window("_ts", "1 minute"), "customer")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )
    minute = f.date_format("window.start", "yyyy-MM-dd HH:mm").alias("minute")
    return counted.select(
        f.col("customer").cast("string").alias("key"),
        f.to_json(f.struct(minute, "customer", "orders", "amount")).alias("value"),
    )
