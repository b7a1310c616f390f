"""Where Spark looks for `format("barnabas")`: every module named pyspark_... is asked."""

from barnabas.pipeline.spark.datasource import BarnabasSource as DefaultSource

__all__ = ["DefaultSource"]
