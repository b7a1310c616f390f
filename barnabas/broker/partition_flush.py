"""Syncs records before they are committed, for partitions with flush.messages.

In: a partition and the end of its log. Out: a sync by the thread of its log directory; when it is
done, the partition's requests that waited for it are completed.
Always: a result that arrives after the partition got another role or another log is ignored.
Not here: which records wait (uncommitted.py), the sync itself (storage/log_directory.py).
"""

from typing import TYPE_CHECKING

from barnabas.log.log import Log
from barnabas.model.errors import Code, Failed, KafkaError, Retriable

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from barnabas.broker.replicas.leading import LeaderReplica


def flush_is_due(partition: "Partition") -> bool:
    """Whether the next record may be committed only after a sync."""
    log = partition.log
    unsynced = log.end_offset - log.durable_offset
    waiting = partition.uncommitted if partition.leading is None else partition.unsynced
    return bool(waiting) or unsynced >= (partition.flush_after or 0)


def flush_to(partition: "Partition", end: int) -> None:
    log, log_directory, leading = partition.log, partition.log_directory, partition.leading
    assert log_directory is not None
    log_directory.flush(log).then(lambda reason: _flushed(partition, log, end, reason, leading))


def _flushed(
    partition: "Partition", log: Log, end: int, reason: str, leading: "LeaderReplica | None"
) -> None:
    if leading is not partition.leading:
        return  # the waiting requests were completed, and the log may have been truncated
    if reason and partition.is_open and log is not partition.log:
        flush_to(partition, end)  # the log was moved to another directory
        return
    log_directory = partition.log_directory
    if reason and partition.is_open and log_directory is not None and log_directory.online:
        # Not durable yet, and perhaps never: stop waiting for it, but it may be synced later.
        problem: KafkaError = Retriable(Code.KAFKA_STORAGE_ERROR, f"{partition.name}: {reason}")
        partition.unsynced.fail_waiting(problem)
        partition.uncommitted.fail_waiting(problem)
        log_directory.when_space(log, lambda: _flush_again(partition, log, leading))
        return
    if reason:
        problem = Failed(Code.KAFKA_STORAGE_ERROR, reason)
        partition.unsynced.fail(problem)
        partition.uncommitted.fail(problem)
        return
    _, waiting = partition.unsynced.take_up_to(end)
    partition.stored_here(end)
    for complete in waiting:
        complete(None)


def _flush_again(partition: "Partition", log: Log, leading: "LeaderReplica | None") -> None:
    if partition.is_open and log is partition.log and leading is partition.leading:
        flush_to(partition, log.end_offset)
