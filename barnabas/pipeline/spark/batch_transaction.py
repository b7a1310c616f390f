"""Exactly once on Apache Kafka: one transaction for all tasks of a batch, with the driver's
producer id and epoch.

In: a query or a write, the reports of its tasks. Out: one transaction, whose end also commits the
batch's number, as an offset of a consumer group named like the transactional id.
Always: a new epoch for each batch, so nothing of an older driver or batch can be written any more.
The offset is read after that: no older driver can commit it later. Sequence numbers are counted by
partition, so one task writes all rows of a partition, once: two tasks in one partition, a second
attempt and a speculative task are refused before anything is committed. A stage that Spark runs
again counts attempts from 0 again: its tasks find their partitions in the transaction, and stop.
Limits: docs/SPARK.md.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.model.errors import Code, Fenced, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.planned_batch import PlannedBatch
from barnabas.pipeline.spark.transaction_calls import (
    SinkTransaction,
    ended,
    initialised,
    offset_committed,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_FETCH_ONE_GROUP_MAX = 7
_METADATA_BYTES_MAX = 4_000  # offset.metadata.max.bytes is 4096


class StoredBatch(NamedTuple):
    """The last batch in the group's offsets; -1 if there is none."""

    number: int
    identity: str


NO_STORED_BATCH = StoredBatch(-1, "")


class BegunBatch(NamedTuple):
    """What the driver gives its tasks."""

    transaction: SinkTransaction
    stored: StoredBatch


def begin(cluster: ClusterClient, id_: str, timeout_ms: int, *, stores: bool) -> BegunBatch:
    """Fences all older drivers and tasks. `stores`: whether batches have numbers."""
    transaction = initialised(cluster, id_, timeout_ms)
    return BegunBatch(transaction, stored_batch(cluster, id_) if stores else NO_STORED_BATCH)


def stored_batch(cluster: ClusterClient, group: str) -> StoredBatch:
    async def attempt() -> StoredBatch:
        connection = await cluster.coordinator(group)
        response = await connection.call(
            OffsetFetchRequest(group_id=group, require_stable=True, topics=None),
            OffsetFetchResponse,
            timeout_ms=cluster.timeout_ms,
            version_max=_FETCH_ONE_GROUP_MAX,
        )
        check(response.error_code, about=f"group {group!r}")
        last = NO_STORED_BATCH
        for topic in response.topics:
            for each in topic.partitions:
                check(each.error_code, about=f"group {group!r}, {topic.name}")
                if each.committed_offset - 1 > last.number:
                    identity = (each.metadata or "").partition(" ")[0]
                    last = StoredBatch(each.committed_offset - 1, identity)
        return last

    return run(cluster.retrying(attempt))


def check_attempt(attempt: int) -> None:
    if attempt:
        raise PipelineError(
            "a task was started again, or twice: on Apache Kafka, exactlyOnce cannot repeat a task."
            " The batch fails and nothing of it is visible: start the query again. Set"
            " spark.speculation to false, and spark.task.maxFailures to 1",
            Code.TRANSACTION_ABORTABLE,
        )


def is_done(stored: StoredBatch, batch: PlannedBatch) -> bool:
    """Whether the batch is in the topic. PipelineError if its number is, with other records."""
    if batch.number > stored.number:
        return False
    if (batch.number, batch.identity) == stored:
        return True
    raise PipelineError(
        f"batch {batch.number} was committed for other records, and the topic has batch"
        f" {stored.number}: the checkpoint is an older copy, or another driver is ahead. Nothing is"
        " written. Restore the newest checkpoint, or begin a new one"
    )


def commit(
    cluster: ClusterClient,
    transaction: SinkTransaction,
    written: Iterable[Mapping[TopicPartition, object]],
    batch: PlannedBatch | None,
) -> None:
    """`written`: the partitions of each task that has written."""
    owners: set[TopicPartition] = set()
    try:
        for partitions in written:
            if both := sorted(owners & partitions.keys()):
                raise PipelineError(
                    f"two tasks have rows for {both[0]}: on Apache Kafka, exactlyOnce needs one"
                    " task for each partition. Nothing is written. Use"
                    " barnabas.pipeline.by_target_partition(df, ...) before the write, or"
                    " coalesce(1)"
                )
            owners |= partitions.keys()
        if batch is not None:
            metadata = f"{batch.identity} {batch.note}"
            if len(metadata.encode()) > _METADATA_BYTES_MAX:
                metadata = batch.identity
            group = transaction.transactional_id
            offset_committed(cluster, transaction, group, min(owners), batch.number + 1, metadata)
        ended(cluster, transaction, commit=True)
    except PipelineError:
        abort(cluster, transaction)
        raise
    except Fenced as problem:
        raise PipelineError(
            "another driver has taken over this query: this one stops, and nothing of its batch is"
            " visible. Run each query only once",
            problem.code,
        ) from None


def abort(cluster: ClusterClient, transaction: SinkTransaction) -> None:
    """Best effort: the next driver, or the timeout, aborts it otherwise."""
    try:
        ended(cluster, transaction, commit=False)
    except KafkaError:
        pass
