"""Loads the shards of groups from their logs, one after the other.

In: shards to load. Out: shards that answer requests.
Not here: reading in slices of time (broker/shards/loading.py), which shards this broker has
(broker/shards/led_shards.py), what records mean (coordinators/groups).
"""

import asyncio

from barnabas.broker.context import GroupsContext
from barnabas.broker.groups.pending_deletions import PendingOffsetDeletions
from barnabas.broker.partition import Partition
from barnabas.broker.shards.led_shards import LedShards
from barnabas.broker.shards.loading import (
    LoadingCancelled,
    check_still_loading,
    stored_batches,
)
from barnabas.coordinators.groups.records import OffsetRecord
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.log.config import INT64_MAX

LOAD_BYTES = 1 << 20


class GroupLoading:
    """One load at a time."""

    def __init__(self, broker: GroupsContext, shards: LedShards[GroupShard]) -> None:
        self._broker = broker
        self._shards = shards
        self._runtime = shards.runtime
        self._waiting: dict[int, Partition] = {}
        self._pending: dict[int, PendingOffsetDeletions] = {}  # by shard
        self.task: asyncio.Task[None] | None = None

    def add(self, index: int, partition: Partition) -> None:
        self._waiting[index] = partition
        if self.task is None:
            self.task = self._broker.loop.create_task(self._load())

    def drop(self, index: int) -> None:
        self._waiting.pop(index, None)
        self._pending.pop(index, None)

    def doom(self, index: int, topic: str, end: int) -> None:
        """Remove offsets of a deleted topic, committed below `end`, before the shard answers."""
        self._pending.setdefault(index, PendingOffsetDeletions()).add(topic, end)

    def stop(self) -> None:
        self._waiting.clear()
        self._pending.clear()
        if self.task is not None:
            self.task.cancel()
            self.task = None

    async def _load(self) -> None:
        clock = self._broker.clock
        began_ms = clock.monotonic_ms()
        records = shards = 0
        while self._waiting:
            index, partition = next(iter(self._waiting.items()))
            del self._waiting[index]
            try:
                records += await self._load_one(partition, index)
            except LoadingCancelled:
                continue
            except Exception as error:
                # A shard without its whole log would answer wrongly: it must refuse instead.
                self._shards.not_loaded(index, error)
                continue
            shards += 1
            pending = self._pending.pop(index, None)
            if pending is not None and pending.ends and pending.written:
                await self._broker.catalog.offsets_forgotten(index, pending.ends)
        self.task = None
        if shards:
            ms = clock.monotonic_ms() - began_ms
            self._broker.log.info("groups loaded", partitions=shards, records=records, ms=ms)

    async def _load_one(self, partition: Partition, index: int) -> int:
        """Replay one log from its start; returns its number of records."""
        runtime = self._runtime
        shard = runtime.any_shard(index)
        pending = self._pending.setdefault(index, PendingOffsetDeletions())
        end, count = partition.log.end_offset, 0

        async def pause() -> None:
            await asyncio.sleep(0)
            check_still_loading(runtime, index, shard)

        stored = stored_batches(self._broker, runtime, index, partition, end, LOAD_BYTES)
        async for header, batch in stored:
            if header.base_offset >= pending.next_end:
                for _ in pending.reached(header.base_offset, shard):
                    await pause()
            runtime.load(index, batch, header)
            count += header.record_count
        while not pending.over:  # more may be deleted while tombstones are written
            for _ in pending.reached(INT64_MAX, shard):
                await pause()
            for records in pending.tombstones(shard):
                if not self.forget(index, records):
                    pending.written = False
                await pause()
        self._shards.finish_loading(index, end)
        return count

    def forget(self, index: int, records: tuple[OffsetRecord, ...]) -> bool:
        """False if the log refuses: then the keeper remembers it until the next start."""
        if self._runtime.write(index, records, self._shards.now()):
            return True
        shard = self._runtime.any_shard(index)
        for record in records:
            shard.replay(record)
        return False
