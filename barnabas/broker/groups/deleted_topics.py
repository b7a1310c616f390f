"""Removes the committed offsets of a topic that is deleted.

In: the topic, the logs of the shards. Out: tombstones in the logs that can be written; for the
others, the offset below which they may have offsets of the topic.
Always: the event loop is never blocked for longer than a time slice.
Not here: when a topic is deleted (coordination.py, broker/catalog.py), shards that are loading
(pending_deletions.py).
"""

import asyncio
from collections.abc import Container, Sequence

from barnabas.broker.groups.loading import GroupLoading
from barnabas.broker.groups.pending_deletions import RECORDS_PER_SLICE
from barnabas.broker.partition import Partition
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.runtime import Runtime
from barnabas.log.config import INT64_MAX


async def forget_offsets(
    topic: str,
    partitions: Sequence[Partition],
    ours: Container[int] | None,
    runtime: Runtime[GroupShard],
    loading: GroupLoading,
) -> dict[int, int]:
    """In all shards, or in those that are `ours`: other brokers do the same for theirs.

    Out: the shards whose logs could not be written yet, and the offset below which they may have
    offsets of it.
    """
    left: dict[int, int] = {}
    to_tell = []
    for index, partition in enumerate(partitions):
        if runtime.is_active(index):
            to_tell.append(index)
        elif ours is not None and index not in ours:
            continue
        elif partition.log_directory is None:  # offline: its contents are not known
            left[index] = INT64_MAX
        elif partition.log.end_offset > partition.log.start_offset:
            left[index] = partition.log.end_offset
            loading.doom(index, topic, left[index])
    for index in to_tell:
        if not await _forget_in(index, topic, runtime, loading):
            left[index] = partitions[index].log.end_offset
    return left


async def _forget_in(
    index: int, topic: str, runtime: Runtime[GroupShard], loading: GroupLoading
) -> bool:
    offsets = runtime.shard(index).offsets
    written = True
    for records in offsets.of_topic(topic, RECORDS_PER_SLICE):
        if not runtime.is_active(index):
            return False
        written = loading.forget(index, tuple(records)) and written
        await asyncio.sleep(0)
    return written
