"""Reads the log of a shard back, in slices of time.

In: a shard and its partition. Out: the batches of the log, in order.
Always: reading never holds the event loop for longer than a slice, and reads no disk on it; a shard
that is unloaded meanwhile, or unloaded and loaded again, gets no batch of the old load.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from barnabas.broker.context import BrokerContext
from barnabas.broker.log_reading import read_batches
from barnabas.broker.partition import Partition
from barnabas.coordinators.ports import AnyShard
from barnabas.coordinators.runtime import Runtime
from barnabas.model.ports import Buffer
from barnabas.wire.batch import BatchHeader
from barnabas.wire.records import iter_batches

SLICE_S = 0.004
S = TypeVar("S", bound=AnyShard)  # type: ignore[type-arg]


class LoadingCancelled(Exception):
    """The shard that was loading does not belong to this broker any more."""


async def stored_batches(
    broker: BrokerContext,
    runtime: Runtime[S],
    index: int,
    partition: Partition,
    end: int,
    bytes_at_once: int,
) -> AsyncIterator[tuple[BatchHeader, Buffer]]:
    """From the start of the log up to the offset `end`."""
    loop = broker.loop
    shard = runtime.any_shard(index)
    offset = partition.log.start_offset
    slice_end = loop.time() + SLICE_S
    while offset < end:
        found = await read_batches(partition, offset, end, bytes_at_once)
        check_still_loading(runtime, index, shard)
        if found is None:
            break
        for header, batch in iter_batches(found.data):
            yield header, batch
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                check_still_loading(runtime, index, shard)
                slice_end = loop.time() + SLICE_S
        offset = found.next_offset


def check_still_loading(runtime: Runtime[S], index: int, shard: S) -> None:
    if not runtime.has(index, shard):
        raise LoadingCancelled
