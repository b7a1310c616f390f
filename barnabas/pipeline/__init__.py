"""Spark: `format("barnabas")` as source and sink, a query as a consumer group.

`barnabas.pipeline.session()` starts a local Spark; in one that runs already, the format is found
by itself, or is made known with `register(spark)`.
Nothing here is imported before Spark or a user asks for it: pyspark is half a gigabyte.
"""

from typing import TYPE_CHECKING

from barnabas.model.lazy import lazy_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.run.session import session
    from barnabas.pipeline.spark.listener import GroupListener

__all__ = ["GroupListener", "register", "session"]

_WHERE = {
    "GroupListener": "barnabas.pipeline.spark.listener",
    "session": "barnabas.pipeline.run.session",
}


def register(spark: "SparkSession") -> None:
    """Where the package was not installed for Spark's Python to find."""
    from barnabas.pipeline.spark.datasource import BarnabasSource

    spark.dataSource.register(BarnabasSource)


__getattr__, __dir__ = lazy_names(globals(), _WHERE)
