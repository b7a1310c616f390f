"""Exactly once on Barnabas: tasks write in transactions of their own, and the driver commits them
as a group.

In: the rows of tasks, the reports of those whose rows Spark takes, the identity of the batch.
Out: one decision of the coordinator, which also stores the batch.
Always: a task never commits. A transaction that the driver does not name is aborted by the next
decision, or by its timeout. A batch that is committed is not written again. The ids of one query
are a bounded set, `GROUP/PARTITION/ATTEMPT`: attempts of one partition do not fence each other, and
a repeated batch fences the tasks of the one before. All ids of a group must be in one partition of
__transaction_state: a suffix is tried until they are.
Not here: the decision (coordinators/transactions/group_commit.py).
"""

from collections.abc import Iterable
from itertools import count

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.coordinators.groups.records import partition_of
from barnabas.model.errors import Code
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.planned_batch import PlannedBatch
from barnabas.pipeline.spark.transaction_calls import (
    GroupState,
    SinkTransaction,
    group_ended,
    group_state,
    initialised,
)


def task_id(group: str, partition: int, attempt: int, partitions: int) -> str:
    """The transactional id of an attempt, in the partition of the group's name."""
    wanted = partition_of(group, partitions)
    name = f"{group}/{partition}/{attempt}"
    if partition_of(name, partitions) == wanted:
        return name
    return next(
        id_ for number in count() if partition_of(id_ := f"{name}.{number}", partitions) == wanted
    )


class GroupCommitter:
    """Of one group: a query, or one write of a DataFrame."""

    def __init__(self, cluster: ClusterClient, group: str) -> None:
        self._cluster = cluster
        self._group = group

    def state(self) -> GroupState:
        return group_state(self._cluster, self._group)

    def begin(
        self, state: GroupState, partition: int, attempt: int, timeout_ms: int
    ) -> SinkTransaction:
        """For one attempt of a task."""
        id_ = task_id(self._group, partition, attempt, state.partitions)
        return initialised(self._cluster, id_, timeout_ms)

    def commit(self, reported: Iterable[SinkTransaction], batch: PlannedBatch | None) -> bool:
        """False if the batch was committed before."""
        transactions = {each.transactional_id: each for each in reported}
        if batch is None and not transactions:
            return True
        number, identity, note = batch or PlannedBatch(-1, "", "")
        said = group_ended(
            self._cluster,
            self._group,
            transactions,
            commit=True,
            batch=number,
            identity=identity,
            note=note,
        )
        what = "the write" if batch is None else f"batch {number}"
        match said.error_code:
            case Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise _other_records(number, said.last_batch, said.last_note)
            case Code.INVALID_TXN_STATE:
                raise PipelineError(
                    f"{what} is not committed, and nothing of it is visible: {said.error_message}."
                    " Run it again. If tasks take longer than kafka.transaction.timeout.ms, raise"
                    " that, or make batches smaller",
                    Code.TRANSACTION_ABORTABLE,
                )
            case Code.MESSAGE_TOO_LARGE:
                raise PipelineError(
                    f"{what} has {len(transactions)} tasks with rows: {said.error_message}. Use"
                    " fewer tasks: coalesce() the DataFrame"
                )
        check(said.error_code, said.error_message, about=f"transactional id {self._group!r}")
        return not said.already_committed

    def abort(self, reported: Iterable[SinkTransaction]) -> None:
        transactions = {each.transactional_id: each for each in reported}
        if transactions:
            group_ended(self._cluster, self._group, transactions, commit=False)


def _other_records(number: int, last: int, note: str) -> PipelineError:
    remedy = f" with startingOffsets {note}" if note else ""
    return PipelineError(
        f"batch {number} was committed for other records, and the topic has batch {last}: the"
        " checkpoint is an older copy, or another driver is ahead. Nothing is written. Restore the"
        f" newest checkpoint, or begin a new one{remedy}"
    )
