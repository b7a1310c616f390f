"""SQL over topics from a notebook or a script: `kafka.sql(...)` and `barnabas.sql(...)`.

In: a query. Out: its rows, which show themselves. The query runs in a process of its own
(barnabas/sql), which is ended at the limits.
Needs DuckDB and pyarrow (`barnabas[sql]`).
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from barnabas.config.option import invalid
from barnabas.notebook.frames import pandas_frame, polars_frame, require
from barnabas.notebook.shown import table

if TYPE_CHECKING:
    import pyarrow

ROWS_SHOWN = 50
ROWS_MAX = 100_000
SECONDS_MAX = 60.0

# The settings of the clusters that start() and connect() gave, the newest last.
open_clusters: list[dict[str, str]] = []


class QueryResult:
    """Rows in the order of the query; `notes`: what was not read."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.rows: list[tuple[Any, ...]] = []
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_arrow(self) -> "pyarrow.Table":
        import pyarrow

        columns = zip(*self.rows, strict=True) if self.rows else ([] for _ in self.columns)
        return pyarrow.table(dict(zip(self.columns, map(list, columns), strict=True)))

    def to_pandas(self) -> Any:
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        return polars_frame(self.to_arrow())

    def __repr__(self) -> str:
        return f"<{len(self.rows)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        more = f"{len(self.rows)} rows" if len(self.rows) > ROWS_SHOWN else ""
        more = "; ".join([more, *self.notes] if more else self.notes)
        return table("", self.columns, self.rows[:ROWS_SHOWN], more)


def ask(query: str, cluster: str | Mapping[str, str] | None = None) -> QueryResult:
    """The rows of a query. A table is a topic; latest('TOPIC') has the last record of each key.

    `cluster`: its address, or client options by Kafka's names; without it, the cluster of the last
    `start()` or `connect()`.
    """
    if cluster is None:
        cluster = open_clusters[-1] if open_clusters else "localhost:9092"
    settings = {"bootstrap.servers": cluster} if isinstance(cluster, str) else dict(cluster)
    for name in ("duckdb", "pyarrow"):
        require(name, "'barnabas[sql]'")
    # On a thread: a notebook's own has an event loop that runs already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_rows(query, settings))).result()


async def _rows(query: str, settings: dict[str, str]) -> QueryResult:
    from barnabas.sql.running import QueryRequest, run_query

    request = QueryRequest(query, settings, rows_max=ROWS_MAX, seconds_max=SECONDS_MAX)
    found = QueryResult()
    async with aclosing(run_query(request)) as lines:
        async for line in lines:
            if "error" in line:
                raise invalid(line["error"])
            if "note" in line:
                found.notes.append(line["note"])
            if "columns" in line:
                found.columns = list(line["columns"])
            if isinstance(line.get("rows"), list):
                found.rows += map(tuple, line["rows"])
    return found
