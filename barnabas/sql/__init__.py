"""SQL over topics: DuckDB on Arrow, in a process of its own.

statement: what a query reads, and its conditions
ranges: the offsets that the conditions leave
topic_reader: the records of one topic, as Arrow
worker: the process that runs it
saving: writes its result as Arrow or Parquet
running: starts the process, passes its results on, ends it at a limit
Why a process: a query that takes too long or too much memory is killed, and nothing else is.

The package itself can be called: `barnabas.sql("select * from orders")`.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, query: str, bootstrap_servers: str | None = None) -> Any:
        """The rows of a query over the topics of a cluster (barnabas/notebook/asking.py)."""
        from importlib import import_module  # by name: the notebook is above this package

        return import_module("barnabas.notebook.asking").ask(query, bootstrap_servers)


sys.modules[__name__].__class__ = _CallablePackage
