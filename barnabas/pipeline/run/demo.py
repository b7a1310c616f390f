"""The pipelines of `barnabas demo`: orders, some of them poison, and three pipelines that read
them.

In: addresses and a directory. Out: specs, each a document that a user could run as a YAML file.
"""

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.samples.samples import Chance, SamplePlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC, WINDOWS, DEAD = "orders", "revenue", "orders.dlq"
TABLE = "shop.orders"
PARTITIONS = 3
SCHEMA = "order long, customer long, country string, cents long"
_COUNTRIES = ("CN", "DE", "FR", "IN", "KE", "NL", "US")
_POISON = (
    b"not an order",
    b'{"order": 17, "customer": ',
    b'{"order": "seventeen", "cents": "a few"}',
    b"\xff\xfe\x00",
    b"[17, 42]",
)
POISON_EVERY = 500


class DemoOrder(NamedTuple):
    """One record of the stream. `cents` is None for a poison record."""

    key: bytes
    value: bytes
    cents: int | None


def _order(chance: Chance, number: int, customers: int) -> tuple[str, dict[str, Any]]:
    customer = chance.below(customers)
    return f"customer-{customer}", {
        "order": number,
        "customer": customer,
        "country": _COUNTRIES[customer % len(_COUNTRIES)],
        "cents": 100 + chance.below(19_900),
    }


_ORDERS = SamplePlan(_order)


def order(number: int) -> DemoOrder:
    """The order with this number: always the same, so that sums can be checked."""
    sample = _ORDERS.sample(number)
    if number % POISON_EVERY == POISON_EVERY // 2:
        return DemoOrder(sample.key, _POISON[number // POISON_EVERY % len(_POISON)], None)
    return DemoOrder(sample.key, sample.value, json.loads(sample.value)["cents"])


def revenue(rows: "DataFrame") -> "DataFrame":
    """Orders and money per country, in windows of ten seconds; each change of a window
    is written.
    """
    from pyspark.sql import functions as f

    orders = rows.select("_ts", f.from_json(f.col("value").cast("string"), SCHEMA).alias("o"))
    summed = (
        orders.where("o.order is not null and o.cents is not null")
        .withWatermark("_ts", "1 minute")
        .groupBy(f.window("_ts", "10 seconds"), "o.country")
        .agg(f.count("*").alias("orders"), f.sum("o.cents").alias("cents"))
    )
    begun = f.date_format("window.start", "HH:mm:ss").alias("window")
    return summed.select(
        f.concat_ws(" ", begun, "country").alias("key"),
        f.to_json(f.struct(begun, "country", "orders", "cents")).alias("value"),
    )


def has_iceberg() -> bool:
    return find_spec("pyiceberg") is not None and find_spec("sqlalchemy") is not None


def lake_format() -> str:
    return "Iceberg" if has_iceberg() else "Parquet"


def _lake(directory: str) -> dict[str, Any]:
    """An Iceberg table with a catalog in a file; without pyiceberg, Parquet files."""
    if not has_iceberg():
        return {"path": f"{directory}/lake", "partition_by": ["date"]}
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"{directory}/lake",
    }
    return {"format": "iceberg", "table": TABLE, "catalog": catalog}


def specs(here: str, there: str, directory: str) -> dict[str, dict[str, Any]]:
    """Three pipelines that read one topic, each with its own group."""
    source: dict[str, Any] = {"servers": here, "topics": [TOPIC]}
    return {
        "orders-revenue": {
            "name": "orders-revenue",
            "kind": "stream",
            "source": source,
            "transform": "barnabas.pipeline.run.demo:revenue",
            "sink": {"topic": WINDOWS, "mode": "update"},
            "run": {"trigger": "1s", "checkpoint": f"{directory}/state/revenue"},
        },
        "orders-lake": {
            "name": "orders-lake",
            "kind": "lake",
            "source": {**source, "format": "json", "schema": SCHEMA},
            "sink": _lake(directory),
            "errors": {"dlq": DEAD},
            "run": {"trigger": "2s", "checkpoint": f"{directory}/state/lake"},
        },
        "orders-mirror": {
            "name": "orders-mirror",
            "kind": "mirror",
            "source": source,
            "sink": {"servers": there},
            "run": {"trigger": "1s"},
        },
    }
