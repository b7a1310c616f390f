"""Orders with the payment that came within the hour; those without one, when the hour is over.

A transform of a pipeline, as in late_counts.py, over two topics: one of orders, one whose name ends
in "payments". Both have `id`, the number of the order. Of a stream only what may still find its
other half is kept.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def paid(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    is_payment = f.col("_topic").endswith("payments")
    orders = rows.where(~is_payment).select(
        f.col("id").alias("order"),
        f.col("customer").alias("customer"),
        f.col("amount").alias("amount"),
        f.col("_ts").alias("ordered_at"),
    )
    payments = rows.where(is_payment).select(
        f.col("id").alias("paid_order"),
        f.col("method").alias("method"),
        f.col("_ts").alias("paid_at"),
    )
    joined = orders.withWatermark("ordered_at", "10 minutes").join(
        payments.withWatermark("paid_at", "10 minutes"),
        f.expr(
            "paid_order = order and paid_at >= ordered_at"
            " and paid_at <= ordered_at + interval 1 hour"
        ),
        "leftOuter",
    )
    return joined.select(
        f.col("customer").cast("string").alias("key"),
        f.to_json(f.struct("order", "customer", "amount", "method")).alias("value"),
    )
