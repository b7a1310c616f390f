"""Spark: `format("barnabas")` as source and sink, a query as a consumer group.

`barnabas.pipeline.session()` starts a local Spark. A Spark session that runs already finds the
format by itself; if it does not, call `register(spark)`. Nothing in this package is imported before
Spark or a user needs it: pyspark is half a gigabyte.
"""

from typing import TYPE_CHECKING

from barnabas.model.lazy import lazy_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.run.session import session
    from barnabas.pipeline.spark.listener import GroupListener
    from barnabas.pipeline.spark.placing import by_target_partition

__all__ = ["GroupListener", "by_target_partition", "register", "session"]

_WHERE = {
    "GroupListener": "barnabas.pipeline.spark.listener",
    "by_target_partition": "barnabas.pipeline.spark.placing",
    "session": "barnabas.pipeline.run.session",
}


def register(spark: "SparkSession") -> None:
    """Registers the format, for a package that is not installed where Spark's Python finds it."""
    from barnabas.pipeline.spark.datasource import BarnabasSource

    spark.dataSource.register(BarnabasSource)


__getattr__, __dir__ = lazy_names(globals(), _WHERE)
