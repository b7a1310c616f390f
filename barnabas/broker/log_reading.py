"""Reads a partition's log back, for the coordinator whose state it holds.

Always: no disk is read on the event loop. The log may move to another directory meanwhile. While
the process has no file descriptors or memory left, the read waits: no other code would retry it.
"""

import asyncio
from typing import NamedTuple

from barnabas.broker.partition import Partition
from barnabas.model.system_errors import OUT_OF_RESOURCES

AGAIN_S = 1.0


class BatchesRead(NamedTuple):
    data: bytes
    next_offset: int


async def read_batches(
    partition: Partition, offset: int, end: int, bytes_max: int
) -> BatchesRead | None:
    """Whole batches from `offset` on, below `end`; None if there are no more."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            found = partition.log.read(offset, bytes_max, end)
            part = found.file_slice
            if part is None:
                return None
            data = await loop.run_in_executor(None, part.file.read, part.position, part.length)
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:
                raise
            await asyncio.sleep(AGAIN_S)
        else:
            return BatchesRead(data, found.next_offset)
