"""Batches of a pipeline without Spark: rows, identities, and how they come into a table."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pyarrow

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.lake.batch_commit import Attempt
from barnabas.pipeline.lake.file_writer import PartitionField, WriterTask, described, write_batches
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.spark.batch_identity import BatchIdentity

DAY_US = 86_400_000_000
AT = TopicPartition("orders", 0)
IDS = {"orders": "0b6cf1b5-4c5f-4d6f-8d3f-1f6c5f7f9a01"}
KEY = f"{IDS['orders']}/0"
SCHEMA = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("value", pyarrow.binary()),
        ("_topic", pyarrow.string()),
        ("_partition", pyarrow.int32()),
        ("_offset", pyarrow.int64()),
        ("_ts", pyarrow.timestamp("us", tz="UTC")),
    ]
)


def identity(start: int, end: int, number: int = 0, query: str = "q") -> BatchIdentity:
    return BatchIdentity(query, number, {AT: start}, {AT: end}, IDS)


def rows(start: int, end: int, *, per_day: int = 10) -> pyarrow.RecordBatch:
    """Records of one partition; the id is the offset, and every tenth begins a day."""
    numbers = list(range(start, end))
    return pyarrow.RecordBatch.from_pydict(
        {
            "id": numbers,
            "value": [b"%d" % n for n in numbers],
            "_topic": ["orders"] * len(numbers),
            "_partition": [0] * len(numbers),
            "_offset": numbers,
            "_ts": [n // per_day * DAY_US + n for n in numbers],
        },
        schema=SCHEMA,
    )


def write(
    store: Store, directory: str, batch: Any, fields: tuple[PartitionField, ...], schema: Any
) -> list[Any]:
    """What tasks do, in this process."""
    here = pyarrow.schema([each for each in schema if each.name in batch.schema.names])
    task = WriterTask(store, directory, here.serialize().to_pybytes(), fields)
    (found,) = write_batches(task, iter([batch]))
    return [described(*row.values()) for row in found.to_pylist()]


def attempt_of(log: Any, of: BatchIdentity) -> Attempt | None:
    """The attempt that a driver would make now; None: the table has the rows."""
    state = log.state(of)
    if not of.remaining(state.done):
        return None
    return Attempt(of, state.next_version(of), state.done, uuid4().hex)


def remaining_rows(attempt: Attempt) -> Any:
    begin = attempt.identity.remaining(attempt.done_before)
    return rows(begin[AT], attempt.identity.end[AT])


Commit = Callable[[BatchIdentity], bool]
