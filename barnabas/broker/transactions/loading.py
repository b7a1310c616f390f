"""Reads the state of transactions back from its log.

In: a shard and its partition. Out: the shard as it was.
Always: reading back never holds the loop for longer than a slice, and reads no disk on it; a shard
that is given up meanwhile gets nothing of what was being read.
"""

import asyncio

from barnabas.broker.context import GroupsContext
from barnabas.broker.log_reading import read_batches
from barnabas.broker.partition import Partition
from barnabas.coordinators.runtime import Runtime
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.wire.records import iter_batches

LOAD_SLICE_S = 0.004


class GivenUp(Exception):
    """The shard that was being read is not this broker's any more."""


async def load(
    broker: GroupsContext,
    runtime: Runtime[TransactionShard],
    index: int,
    partition: Partition,
    bytes_at_once: int,
) -> int:
    """Replay the log from its start; the offset up to which that was done."""
    loop = broker.loop
    shard = runtime.any_shard(index)
    offset, end = partition.log.start_offset, partition.log.end_offset
    slice_end = loop.time() + LOAD_SLICE_S
    while offset < end:
        found = await read_batches(partition, offset, end, bytes_at_once)
        _check(runtime, index, shard)
        if found is None:
            break
        for header, batch in iter_batches(found.data):
            runtime.load(index, batch, header)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                _check(runtime, index, shard)
                slice_end = loop.time() + LOAD_SLICE_S
        offset = found.next_offset
    return end


def _check(runtime: Runtime[TransactionShard], index: int, shard: TransactionShard) -> None:
    if not runtime.has(index, shard):
        raise GivenUp
