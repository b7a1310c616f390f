"""Loads the shards of groups from their logs, one after the other.

In: shards to load. Out: shards that answer requests.
Always: loading never blocks the event loop for longer than a time slice, and never reads a disk on
it; a shard that is unloaded meanwhile, or unloaded and loaded again, gets no record of the old
load.
Not here: which shards this broker has (coordination.py), what records mean (coordinators/groups).
"""

import asyncio
from collections.abc import Callable

from barnabas.broker.context import GroupsContext
from barnabas.broker.groups.pending_deletions import PendingOffsetDeletions
from barnabas.broker.log_reading import read_batches
from barnabas.broker.partition import Partition
from barnabas.coordinators.groups.records import OffsetRecord
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.runtime import Now, Runtime
from barnabas.log.config import INT64_MAX
from barnabas.wire.records import iter_batches

LOAD_BYTES = 1 << 20
LOAD_SLICE_S = 0.004


class LoadingCancelled(Exception):
    """The shard that was loading does not belong to this broker any more."""


class GroupLoading:
    """`loaded` or `failed` is called for each shard."""

    def __init__(
        self,
        broker: GroupsContext,
        runtime: Runtime[GroupShard],
        now: Callable[[], Now],
        loaded: Callable[[int], None],
        failed: Callable[[int, Exception], None],
    ) -> None:
        self._broker = broker
        self._runtime = runtime
        self._now = now
        self._loaded = loaded
        self._failed = failed
        self._waiting: dict[int, Partition] = {}
        self._doomed: dict[int, PendingOffsetDeletions] = {}  # by shard
        self.task: asyncio.Task[None] | None = None

    def add(self, index: int, partition: Partition) -> None:
        self._waiting[index] = partition
        if self.task is None:
            self.task = self._broker.loop.create_task(self._load())

    def drop(self, index: int) -> None:
        self._waiting.pop(index, None)
        self._doomed.pop(index, None)

    def doom(self, index: int, topic: str, end: int) -> None:
        """Remove offsets of a deleted topic, committed below `end`, before the shard answers."""
        self._doomed.setdefault(index, PendingOffsetDeletions()).add(topic, end)

    def stop(self) -> None:
        self._waiting.clear()
        self._doomed.clear()
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
                self._failed(index, error)
                continue
            shards += 1
            self._loaded(index)
            doomed = self._doomed.pop(index, None)
            if doomed is not None and doomed.ends and doomed.written:
                await self._broker.catalog.offsets_forgotten(index, doomed.ends)
        self.task = None
        if shards:
            ms = clock.monotonic_ms() - began_ms
            self._broker.log.info("groups loaded", partitions=shards, records=records, ms=ms)

    async def _load_one(self, partition: Partition, index: int) -> int:
        """Replay one log from its start; returns its number of records."""
        loop, runtime = self._broker.loop, self._runtime
        shard = runtime.any_shard(index)
        doomed = self._doomed.setdefault(index, PendingOffsetDeletions())
        offset, end = partition.log.start_offset, partition.log.end_offset
        count = 0
        slice_end = loop.time() + LOAD_SLICE_S

        async def pause() -> None:
            await asyncio.sleep(0)
            self._check(index, shard)

        while offset < end:
            found = await read_batches(partition, offset, end, LOAD_BYTES)
            self._check(index, shard)
            if found is None:
                break
            for header, batch in iter_batches(found.data):
                if header.base_offset >= doomed.next_end:
                    for _ in doomed.reached(header.base_offset, shard):
                        await pause()
                runtime.load(index, batch, header)
                count += header.record_count
                if loop.time() > slice_end:
                    await pause()
                    slice_end = loop.time() + LOAD_SLICE_S
            offset = found.next_offset
        while not doomed.over:  # more may be deleted while tombstones are written
            for _ in doomed.reached(INT64_MAX, shard):
                await pause()
            for records in doomed.tombstones(shard):
                if not self.forget(index, records):
                    doomed.written = False
                await pause()
        runtime.finish_loading(index, self._now(), end)
        return count

    def _check(self, index: int, shard: GroupShard) -> None:
        if not self._runtime.has(index, shard):
            raise LoadingCancelled

    def forget(self, index: int, records: tuple[OffsetRecord, ...]) -> bool:
        """False if the log refuses: then the keeper remembers it until the next start."""
        if self._runtime.write(index, records, self._now()):
            return True
        shard = self._runtime.any_shard(index)
        for record in records:
            shard.replay(record)
        return False
