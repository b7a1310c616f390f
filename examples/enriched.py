"""Orders with the name and country of their customer, from a table: customers.csv.

A transform of a pipeline, as in late_counts.py. Spark reads the table for every batch, so that a
change of its rows is seen by the next one. An order of a customer who is not in it has nulls.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_customer(orders: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    customers = orders.sparkSession.read.csv(
        str(Path("customers.csv").resolve()),
        schema="customer long, name string, country string",
        header=True,
    )
    known = orders.join(f.broadcast(customers), "customer", "left")
    return known.select(
        f.col("customer").cast("string").alias("key"),
        f.to_json(f.struct("id", "customer", "name", "country", "amount")).alias("value"),
    )
