"""What the writers of an exactly-once sink do, in tasks and on the driver, without Spark.

In: options, the rows and the identity of each task, the reports of tasks. Out: a batch that is in
the topics once, or not at all; a report for the driver.
Brokers of Barnabas commit the transactions of tasks as a group (group_committer.py). On Apache
Kafka all tasks of a batch share one transaction (batch_transaction.py).
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark import batch_transaction
from barnabas.pipeline.spark.batch_transaction import (
    NO_STORED_BATCH,
    BegunBatch,
    StoredBatch,
    check_attempt,
    is_done,
)
from barnabas.pipeline.spark.brokers import opened
from barnabas.pipeline.spark.group_committer import GroupCommitter
from barnabas.pipeline.spark.options import SinkOptions
from barnabas.pipeline.spark.planned_batch import PlannedBatch, planned_batch, query_id
from barnabas.pipeline.spark.transaction_calls import SinkTransaction, has_groups
from barnabas.pipeline.spark.writing import Writing, Written

if TYPE_CHECKING:
    import pyarrow

_LOG = logging.getLogger(__name__)


class TaskAttempt(NamedTuple):
    """Of Spark: the query and the batch are None in a write without a stream."""

    query: str | None
    batch: int | None
    partition: int
    attempt: int


@dataclass(frozen=True)
class OnceWritten:
    """The report of a task. `transaction`: None if it has written nothing."""

    written: Written
    group: str
    transaction: SinkTransaction | None = None
    stored: StoredBatch = field(default=NO_STORED_BATCH)


class OnceSink:
    """`write_id`: of one write of a DataFrame; a stream has none."""

    def __init__(self, options: SinkOptions, write_id: str | None = None) -> None:
        if options.client.get("acks", "all") not in ("all", "-1"):
            raise PipelineError(
                f"kafka.acks is {options.client['acks']!r}: exactlyOnce needs acks=all, leave it"
            )
        if options.app_id is None and options.version is not None:
            raise PipelineError("txnVersion needs txnAppId, the name of what is numbered")
        self._options = options
        self._write_id = write_id
        self._has_groups: bool | None = None
        self._begun: BegunBatch | None = None

    @property
    def _groups(self) -> bool:
        """Not asked when Spark makes a writer: it makes another one to abort a batch, also because
        the brokers are unreachable, and would hide the reason if that failed.
        """
        if self._has_groups is None:
            self._has_groups = has_groups(opened(self._options.client))
        return self._has_groups

    def _group(self, query: str | None) -> str:
        """Of transactional ids: the same for each repetition of a batch."""
        # In foreachBatch, tasks know the query around the write.
        name = self._options.app_id or (query if self._write_id is None else self._write_id)
        if not name:
            raise PipelineError(
                "Spark does not name the query of this batch: rows could be written twice. Set"
                " txnAppId to a name that only this query has"
            )
        return f"{self._options.id_prefix}-{name}"

    # The driver, before the tasks

    def prepare(self) -> None:
        """Before the writer is sent to tasks: on Apache Kafka they share a transaction. Called for
        each time that Spark pickles the writer; one is enough.
        """
        if self._groups or self._begun is not None:
            return
        options = self._options
        query = None
        if self._write_id is None and options.checkpoint is None:
            raise PipelineError(
                "checkpointLocation: on Apache Kafka, exactlyOnce needs it as an option of the"
                " query, not as a setting of the session"
            )
        if self._write_id is None:
            query = query_id(str(options.checkpoint))
        self._begun = batch_transaction.begin(
            opened(options.client),
            self._group(query),
            options.timeout_ms,
            stores=query is not None or options.version is not None,
        )

    # Tasks

    def write(self, batches: Iterator["pyarrow.RecordBatch"], task: TaskAttempt) -> OnceWritten:
        group = self._group(task.query)
        number = task.batch if self._write_id is None else self._options.version
        if self._groups:
            return self._write_in_group(batches, task, group, number)
        assert self._begun is not None
        check_attempt(task.attempt)
        transaction, stored = self._begun
        if number is not None and number <= stored.number:
            _read_to_the_end(batches)
            return OnceWritten(Written(0), group, None, stored)
        writing = Writing(self._options)
        writing.sender.share(transaction)
        written = writing.report(batches)
        return OnceWritten(written, group, transaction if written.records else None, stored)

    def _write_in_group(
        self,
        batches: Iterator["pyarrow.RecordBatch"],
        task: TaskAttempt,
        group: str,
        number: int | None,
    ) -> OnceWritten:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:  # most tasks of a small batch, which then ask nothing
            return OnceWritten(Written(0), group)
        committer = GroupCommitter(opened(self._options.client), group)
        state = committer.state()
        if number is not None and number <= state.batch:
            # The driver compares the identities.
            _read_to_the_end(batches)
            return OnceWritten(Written(0), group)
        writing = Writing(self._options)

        def begin() -> SinkTransaction:
            return committer.begin(state, task.partition, task.attempt, self._options.timeout_ms)

        writing.sender.begin_with(begin)
        written = writing.report(chain((first,), batches))
        return OnceWritten(written, group, writing.sender.transaction)

    # The driver, after the tasks

    def commit(self, reports: Iterable[OnceWritten | None], number: int | None = None) -> None:
        """`number`: Spark's, of a stream."""
        found = [report for report in reports if report is not None]
        if not found:
            return  # no task, no rows
        batch = self._planned(number)
        cluster, group = opened(self._options.client), found[0].group
        open_ = [each.transaction for each in found if each.transaction is not None]
        if self._groups:
            GroupCommitter(cluster, group).commit(open_, batch)
            return
        if batch is not None and is_done(found[0].stored, batch):
            return
        if open_:
            written = [each.written.offsets for each in found if each.transaction is not None]
            batch_transaction.commit(cluster, open_[0], written, batch)

    def _planned(self, number: int | None) -> PlannedBatch | None:
        options = self._options
        if number is None:
            version = options.version
            return None if version is None else PlannedBatch(version, options.identity, "")
        return planned_batch(options.checkpoint, number, options.identity)

    def abort(self, reports: Iterable[OnceWritten | None]) -> None:
        """Best effort: what stays open is aborted by the next batch, or by its timeout."""
        found = [report for report in reports if report is not None]
        open_ = [each.transaction for each in found if each.transaction is not None]
        if not open_:
            return
        try:
            cluster = opened(self._options.client)
            if self._groups:
                GroupCommitter(cluster, found[0].group).abort(open_)
            else:
                batch_transaction.abort(cluster, open_[0])
        except (KafkaError, PipelineError) as problem:
            _LOG.warning("a batch is not aborted at once: %s", problem)


def _read_to_the_end(batches: Iterator["pyarrow.RecordBatch"]) -> None:
    for _ in batches:
        pass
