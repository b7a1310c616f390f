"""The writers behind `format("barnabas")`: the accepted columns, and the report of a task.

At least once by default: a task that failed may have written some of its rows, and writes all of
them again. With the option exactlyOnce rows are written in transactions (once_sink.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas.pipeline.errors import PipelineError, one_line
from barnabas.pipeline.spark.once_sink import OnceSink, OnceWritten, TaskAttempt
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

    def __init__(self, written: Written, once: OnceWritten | None = None) -> None:
        self.written = written
        self.once = once


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


def task_attempt() -> TaskAttempt:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskAttempt(None, None, 0, 0)
    batch = context.getLocalProperty(_BATCH)
    return TaskAttempt(
        context.getLocalProperty(_QUERY),
        int(batch) if batch else None,
        context.partitionId(),
        context.attemptNumber(),
    )


def write_rows(options: SinkOptions, batches: Iterator["pyarrow.RecordBatch"]) -> TaskWritten:
    settle()
    task = task_attempt()
    written = Writing(options).report(batches)
    return TaskWritten(
        replace(
            written,
            query=task.query,
            batch=task.batch,
            task=(task.partition, task.attempt),
        )
    )


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame. With exactlyOnce all of them, or none."""

    def __init__(self, given: Mapping[str, str], schema: Any, overwrite: bool) -> None:
        if overwrite:
            raise PipelineError("a topic can only be appended to: use mode('append')")
        self._options = sink_options(given)
        check_columns(schema, self._options)
        self._once: OnceSink | None = None
        if self._options.exactly_once:
            self._once = OnceSink(self._options, f"write-{uuid4()}")

    def __getstate__(self) -> dict[str, Any]:
        _prepare(self._once)
        return self.__dict__

    @one_line
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> TaskWritten:
        if self._once is not None:
            return write_once(self._once, iterator)
        return write_rows(self._options, iterator)

    @one_line
    def commit(self, messages: list[TaskWritten | None]) -> None:
        if self._once is not None:
            self._once.commit(_reports(messages))

    @one_line
    def abort(self, messages: list[TaskWritten | None]) -> None:
        """Without exactlyOnce, written rows stay in the topic: at least once."""
        if self._once is not None:
            self._once.abort(_reports(messages))


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Appends the rows of each batch of a query. Spark makes one for the tasks of a batch, and
    another one to commit it.
    """

    def __init__(self, given: Mapping[str, str], schema: Any) -> None:
        self._options = sink_options(given)
        check_columns(schema, self._options)
        self._once = OnceSink(self._options) if self._options.exactly_once else None

    def __getstate__(self) -> dict[str, Any]:
        _prepare(self._once)
        return self.__dict__

    @one_line
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> TaskWritten:
        if self._once is not None:
            return write_once(self._once, iterator)
        return write_rows(self._options, iterator)

    @one_line
    def commit(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """Without exactlyOnce nothing is left to do: every row is written when its task ends."""
        if self._once is not None:
            self._once.commit(_reports(messages), batchId)

    @one_line
    def abort(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """Without exactlyOnce, written rows stay in the topic: at least once."""
        if self._once is not None:
            self._once.abort(_reports(messages))


@one_line
def _prepare(sink: OnceSink | None) -> None:
    if sink is not None:
        sink.prepare()


def write_once(sink: OnceSink, batches: Iterator["pyarrow.RecordBatch"]) -> TaskWritten:
    settle()
    report = sink.write(batches, task_attempt())
    return TaskWritten(report.written, report)


def _reports(messages: list[TaskWritten | None]) -> list[OnceWritten | None]:
    return [None if message is None else message.once for message in messages]
