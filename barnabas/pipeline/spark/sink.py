"""The writers behind `format("barnabas")`: the accepted columns, and the report of a task.

At least once: a task that failed may have written some of its rows, and writes all of them again.
The sink does not use transactions, so a repeated batch is written twice. The report of a task has
the query, the batch and the producer: a commit by the driver would need them.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas.pipeline.errors import PipelineError, one_line
from barnabas.pipeline.spark.options import SinkOptions, sink_options
from barnabas.pipeline.spark.worker_start import settle
from barnabas.pipeline.spark.writing import Writing, Written

if TYPE_CHECKING:
    import pyarrow

_HEADERS = "array<struct<key:string,value:binary>>"
_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": (_HEADERS,),
}
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


class TaskWritten(WriterCommitMessage):  # type: ignore[misc]
    """The report that Spark carries from a task to its driver."""

    def __init__(self, written: Written) -> None:
        self.written = written


def check_columns(schema: Any, options: SinkOptions) -> None:
    """An error, in one line, if the DataFrame cannot be written."""
    names = [column.name for column in schema.fields]
    if "value" not in names:
        raise PipelineError(
            f"a column named value is needed, of strings or bytes; there are {', '.join(names)}"
        )
    if options.topic is None and "topic" not in names:
        raise PipelineError("no topic: set the option topic, or add a column named topic")
    for column in schema.fields:
        wanted = _TYPES.get(column.name)
        found = column.dataType.simpleString()
        if wanted is not None and found not in wanted:
            raise PipelineError(
                f"column {column.name} must be {' or '.join(wanted)}, and is {found}: cast it"
            )


def write_rows(options: SinkOptions, batches: Iterator["pyarrow.RecordBatch"]) -> TaskWritten:
    from pyspark import TaskContext

    settle()
    context = TaskContext.get()
    query = batch = None
    task = (0, 0)
    if context is not None:
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        task = (context.partitionId(), context.attemptNumber())
    sender = Writing(options).write(batches)
    return TaskWritten(
        Written(
            records=sender.records,
            offsets=sender.written,
            producer_id=sender.producer_id,
            producer_epoch=sender.epoch,
            query=query,
            batch=int(batch) if batch else None,
            task=task,
        )
    )


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame."""

    def __init__(self, given: Mapping[str, str], schema: Any, overwrite: bool) -> None:
        if overwrite:
            raise PipelineError("a topic can only be appended to: use mode('append')")
        self._options = sink_options(given)
        check_columns(schema, self._options)

    @one_line
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> TaskWritten:
        return write_rows(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Appends the rows of each batch of a query."""

    def __init__(self, given: Mapping[str, str], schema: Any) -> None:
        self._options = sink_options(given)
        check_columns(schema, self._options)

    @one_line
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> TaskWritten:
        return write_rows(self._options, iterator)

    def commit(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """Nothing to do: every row is written when its task ends."""

    def abort(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """Written rows stay in the topic: at least once."""
