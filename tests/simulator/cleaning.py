"""The compaction worker of a machine in a world: the real work, in calls for a thread of its own.

In: orders. Out: the reports that the worker's process would send, and new segments on the disk.
"""

import asyncio
from collections.abc import AsyncIterator

from barnabas.broker.storage.cleaner_protocol import (
    CompactedSegment,
    CompactionDone,
    CompactionOrder,
    CompactionStopped,
    Report,
)
from barnabas.log.compaction.compaction import Compaction
from barnabas.model.errors import Corrupt, KafkaError
from tests.simulator.loop import VirtualLoop

SECRET = bytes(16)


class VirtualCleaner:
    """In the place of CleanerProcess; ends with its machine."""

    pid = None

    def __init__(self) -> None:
        self._orders = 0

    async def carry_out(self, order: CompactionOrder) -> AsyncIterator[Report]:
        self._orders += 1
        number = self._orders
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        disk = loop.disk
        assert disk is not None
        try:
            work = Compaction(disk, order.job, SECRET, lambda size: None)
            await loop.run_in_executor(None, work.map_keys)
            for group in work.groups():
                cleaned = await loop.run_in_executor(None, work.clean, group)
                if number != self._orders:
                    break
                yield CompactedSegment(cleaned)
            else:
                yield CompactionDone(work.end_offset, work.keys)
                return
            yield CompactionStopped("the compaction worker ended", gone=False, damaged=False)
        except FileNotFoundError as error:
            yield CompactionStopped(str(error), gone=True, damaged=False)
        except (KafkaError, OSError) as error:
            yield CompactionStopped(str(error), gone=False, damaged=isinstance(error, Corrupt))

    async def end(self) -> None:
        """What it was doing is of no use to anybody."""
        self._orders += 1

    async def close(self) -> None:
        await self.end()
