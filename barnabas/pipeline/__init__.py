"""Spark: `format("barnabas")` as source and sink, a query as a consumer group.

`barnabas.pipeline.session()` starts a local Spark; in one that runs already, the format is found
by itself, or is made known with `register(spark)`.
Nothing here is imported before Spark or a user asks for it: pyspark is half a gigabyte.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.listener import GroupListener
    from barnabas.pipeline.starting import session

__all__ = ["GroupListener", "register", "session"]

_WHERE = {
    "GroupListener": "barnabas.pipeline.listener",
    "session": "barnabas.pipeline.starting",
}


def register(spark: "SparkSession") -> None:
    """Where the package was not installed for Spark's Python to find."""
    from barnabas.pipeline.datasource import BarnabasSource

    spark.dataSource.register(BarnabasSource)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'barnabas.pipeline' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
