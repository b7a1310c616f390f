"""Reads a range of offsets of one partition, as Arrow batches.

In: a range. Out: its rows, in order. Runs in Spark's tasks, blocking.
Always: every existing record of the range is returned once.
Not here: fetching batches from the brokers (fetching.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.client.consumer.arrow import ArrowRows
from barnabas.pipeline.spark.brokers import look_for, opened
from barnabas.pipeline.spark.fetching import FETCH_BYTES, RangeFetcher
from barnabas.pipeline.spark.offsets import OffsetRange

if TYPE_CHECKING:
    import pyarrow

# size of one Arrow batch, small enough to be read while it is still in the CPU caches
ROWS_MAX = 16 * 1024
BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True)
class Task:
    """The range that one task of Spark reads, and its options."""

    range: OffsetRange
    client: tuple[tuple[str, str], ...]
    headers: bool
    fail_on_data_loss: bool
    poll_timeout_ms: int
    time_min: int | None = None  # older batches are not decompressed
    topic_id: UUID | None = None  # of the topic that the offsets stand for; None: of any


def read_task(task: Task) -> Iterator["pyarrow.RecordBatch"]:
    """Each batch belongs to the caller: its memory is not written again."""
    cluster = opened(dict(task.client))
    look_for(cluster, [task.range.at])
    config = cluster.config
    asked = "max.partition.fetch.bytes" in dict(task.client)
    fetching = RangeFetcher(
        cluster,
        task.range,
        committed_only=config.isolation_level == "read_committed",
        fetch_bytes=config.max_partition_fetch_bytes if asked else FETCH_BYTES,
        fail_on_data_loss=task.fail_on_data_loss,
        poll_timeout_ms=task.poll_timeout_ms,
        topic_id=task.topic_id,
    )
    rows = ArrowRows(headers=task.headers)
    at, stop, crc = task.range.at, task.range.stop, config.check_crcs
    for header, batch in fetching.batches():
        if task.time_min is not None and header.max_timestamp < task.time_min:
            continue
        rows.add(at.topic, at.partition, header, batch, fetching.position, stop, crc=crc)
        if rows.rows >= ROWS_MAX or rows.size >= BYTES_MAX:
            yield rows.take()
    if rows.rows:
        yield rows.take()
