"""One driver of a pipeline into a table, without Spark, to be killed: `python -m` it.

It adds batches of random size until the table has all rows. What the parts do that it uses: the
order of the steps, the writer of a task, the commits; only Spark is missing.
"""

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.batch_commit import Attempt, write_batch
from barnabas.pipeline.lake.delta_table import DeltaTable
from barnabas.pipeline.lake.file_writer import WriterTask, described, write_batches
from barnabas.pipeline.lake.iceberg_table import IcebergTable
from barnabas.pipeline.run.spec import Spec, parse
from tests.spark.lake.rows import AT, SCHEMA, identity, rows
from tests.spark.lake.test_delta_log import Schema

ROWS_MAX = 40


class InProcessIceberg(IcebergTable):
    """The tasks run in this process."""

    def prepare(self, schema: Any) -> None:
        self._log.open(schema)

    def write_files(self, rows: Any, attempt: Attempt) -> list[Any]:
        return _written(self._task(rows.schema.names, attempt), rows)


class InProcessDelta(DeltaTable):
    """The tasks run in this process."""

    def prepare(self, schema: Any) -> None:
        self._log.open(Schema())

    def write_files(self, rows: Any, attempt: Attempt) -> list[Any]:
        schema = SCHEMA.serialize().to_pybytes()
        return _written(WriterTask(self._store, attempt.directory, schema), rows)


def _written(task: WriterTask, batch: Any) -> list[Any]:
    (found,) = write_batches(task, iter([batch]))
    return [described(*row.values()) for row in found.to_pylist()]


def spec_of(format_: str, place: str, out: Path) -> Spec:
    sink: dict[str, Any] = {"format": "delta", "path": f"{place}/table"}
    if format_ == "iceberg":
        catalog = {"type": "sql", "uri": f"sqlite:///{out}/catalog.db", "warehouse": place}
        sink = {"format": "iceberg", "table": "sales.orders", "catalog": catalog}
    return parse(
        {
            "name": "orders-lake",
            "kind": "lake",
            "source": {"servers": "localhost:1", "topics": ["orders"]},
            "sink": sink,
            "run": {"checkpoint": str(out / "state")},
        }
    )


def table_of(spec: Spec) -> Any:
    if spec.sink.format == "iceberg":
        return InProcessIceberg(spec)
    table = InProcessDelta(spec)
    table._log._columns = []  # the rows have no column for the day
    return table


def drive(spec: Spec, until: int, seed: int) -> None:
    chance = random.Random(seed)
    table = table_of(spec)
    table.prepare(SCHEMA)
    query, number, start = f"q{seed}", 0, 0
    while True:
        state = table.state(identity(start, until, number, query))
        start = max(state.done.values(), default=0)
        if start >= until:
            return
        end = min(start + chance.randint(1, ROWS_MAX), until)
        batch = identity(start, end, number, query)

        def remaining(begin: Any, end: int = end) -> pyarrow.RecordBatch:
            return rows(begin[AT], end)

        write_batch(table, batch, SCHEMA, remaining)
        number += 1


if __name__ == "__main__":
    try:
        drive(
            spec_of(sys.argv[1], sys.argv[2], Path(sys.argv[3])), int(sys.argv[4]), int(sys.argv[5])
        )
    except PipelineError as problem:
        sys.exit(str(problem))
