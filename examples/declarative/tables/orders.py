"""Tables made from a topic: its orders, what each customer has spent, and large ones as a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
servers = spark.conf.get("orders.servers")


@dp.table
def orders() -> DataFrame:
    """Each order of the topic, once: what came since the last run is added."""
    topic = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("group.id", "orders-nightly")
        .load()
    )
    schema = "id long, customer long, amount long"
    rows = topic.selectExpr(f"from_json(cast(value as string), '{schema}') as row", "timestamp")
    return rows.select("row.*", "timestamp")


@dp.materialized_view
def spent() -> DataFrame:
    return spark.read.table("orders").groupBy("customer").agg(f.sum("amount").alias("amount"))


dp.create_sink("large_orders", "barnabas", {
    "kafka.bootstrap.servers": servers,
    "topic": "large-orders",
})  # fmt: skip


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    rows = spark.readStream.table("orders").where("amount > 90")
    return rows.selectExpr("cast(customer as string) as key", "to_json(struct(*)) as value")
