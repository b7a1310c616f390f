"""Part of the suite "spark": the least that any source and sink in Python take.

A source that hands out one ready batch again and again, and a sink that drops its rows, neither
with a broker. What is left is Spark's own way to Python and back: no source or sink in Python can
be quicker.
"""

import time
from array import array
from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from barnabas.client.consumer.arrow import arrow_schema
from barnabas.pipeline.spark.datasource import COLUMNS
from barnabas.pipeline.spark.reading import BYTES_MAX, ROWS_MAX

FLOOR = "floor"
ROWS, SIZE, TASKS, BATCHES = "rows", "size", "tasks", "batches"


class FloorSource(DataSource):  # type: ignore[misc]
    """Options: rows in all, the size of a value, tasks, and batches of a stream."""

    @classmethod
    def name(cls) -> str:
        return FLOOR

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: Any) -> "FloorReader":
        return FloorReader(self.options)

    def streamReader(self, schema: Any) -> "FloorStream":
        return FloorStream(self.options)

    def writer(self, schema: Any, overwrite: bool) -> "FloorWriter":
        return FloorWriter()


def _slices(rows: int, options: Any) -> list[InputPartition]:
    tasks = min(int(options[TASKS]), rows)
    return [InputPartition((rows // tasks, int(options[SIZE]))) for _ in range(tasks)]


def _batches(rows: int, size: int) -> Iterator[pyarrow.RecordBatch]:
    """As many rows in each as our own source gives."""
    each = min(ROWS_MAX, BYTES_MAX // size, rows)
    now_us = time.time_ns() // 1000
    columns = [
        pyarrow.array([b"key-%08d" % number for number in range(each)], pyarrow.binary()),
        pyarrow.array([b"v" * size] * each, pyarrow.binary()),
        pyarrow.array(["a-topic"] * each, pyarrow.string()),
        pyarrow.array([0] * each, pyarrow.int32()),
        pyarrow.array(array("q", range(each))),
        pyarrow.array(array("q", [now_us] * each)).cast(pyarrow.timestamp("us", tz="UTC")),
        pyarrow.array([0] * each, pyarrow.int32()),
    ]
    whole = pyarrow.RecordBatch.from_arrays(columns, schema=arrow_schema())
    for _ in range(rows // each):
        yield whole
    if rows % each:
        yield whole.slice(0, rows % each)


class FloorReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: Any) -> None:
        self._options = dict(options)

    def partitions(self) -> list[InputPartition]:
        return _slices(int(self._options[ROWS]), self._options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return _batches(*partition.value)


class FloorStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """So many rows at each trigger that all are read after so many batches."""

    def __init__(self, options: Any) -> None:
        self._options = dict(options)

    def initialOffset(self) -> dict[str, int]:
        return {ROWS: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """It is always all that there is."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        rows = int(self._options[ROWS])
        return {ROWS: min(start[ROWS] + rows // int(self._options[BATCHES]), rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return _slices(end[ROWS] - start[ROWS], self._options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return _batches(*partition.value)


class FloorWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
