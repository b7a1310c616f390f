"""The broker's periodic work: syncs, checkpoints, retention, idle connections, deleted files.

Always: work that may wait for a disk runs in its log directory's thread (log_directory.py), never
on the loop.
"""

import asyncio
from typing import Protocol

from barnabas.broker.context import BrokerContext
from barnabas.broker.net.connection import Connection
from barnabas.broker.net.file_descriptors import FileDescriptorBudget
from barnabas.broker.net.listener_context import ListenerContext
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.storage.storage import Storage
from barnabas.log.config import INT64_MAX
from barnabas.log.log import Log
from barnabas.model.errors import KafkaError

TICK_S = 1.0
CHECKPOINT_EVERY_TICKS = 5
EXPIRE_EVERY_TICKS = 600
CROWDED_EVERY_TICKS = 5
PRODUCERS_MAX = 200_000  # of all partitions together: some 100 MB
RETENTION_SLICE_S = 0.005
CLOCK_JUMP_MS = 3_600_000


class HousekeepingContext(BrokerContext, Protocol):
    """What this module needs of the broker."""

    logs: Storage
    descriptors: FileDescriptorBudget
    connections: dict[Connection, None]


class Housekeeping:
    """One tick per second; on each log directory, one task at a time."""

    def __init__(self, broker: HousekeepingContext, contexts: list[ListenerContext]) -> None:
        """`contexts`: of all listeners, which share their memory; the first one always exists."""
        self._broker = broker
        self._contexts = contexts
        self._ticks = 0
        self._work: dict[OpenLogDirectory, asyncio.Task[None]] = {}
        self._retaining: asyncio.Task[None] | None = None
        self._expiring: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._retention_ms = 0  # when segments were last checked, by the monotonic clock
        self._clock_offset_ms = 0  # of the wall clock, at that time

    def start(self) -> None:
        clock = self._broker.clock
        now_ms = self._tell_time()
        self._clock_offset_ms = clock.wall_ms() - now_ms
        config = self._broker.config
        first_ms = now_ms + config.log_initial_task_delay_ms
        self._retention_ms = first_ms - config.log_retention_check_interval_ms
        self._timer = self._broker.loop.call_later(TICK_S, self._tick)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._retaining, self._expiring):
            if task is not None:
                await task
        for work in self._work.values():
            await work

    def _tick(self) -> None:
        self._ticks += 1
        now_ms = self._tell_time()
        self._close_idle(now_ms)
        if self._ticks % CROWDED_EVERY_TICKS == 0 and (
            self._expiring is None or self._expiring.done()
        ):
            self._expiring = self._broker.loop.create_task(self._expire_producers())
        if self._retaining is None or self._retaining.done():
            self._retaining = self._broker.loop.create_task(self._retain())
        for log_directory in self._broker.logs.online():
            work = self._work.get(log_directory)
            if work is None or work.done():
                self._work[log_directory] = self._broker.loop.create_task(self._tidy(log_directory))
        self._timer = self._broker.loop.call_later(TICK_S, self._tick)

    def _tell_time(self) -> int:
        now_ms = self._broker.clock.monotonic_ms()
        for context in self._contexts:
            context.now_ms = now_ms
        return now_ms

    def _close_idle(self, now_ms: int) -> None:
        idle_ms_max = self._broker.config.connections_max_idle_ms
        # Read once: each connection that is closed frees memory.
        crowded = self._contexts[0].buffers.crowded
        scarce = self._broker.descriptors.crowded(now_ms)
        for connection in tuple(self._broker.connections):
            if scarce and connection.holds_files(now_ms):
                connection.close("its unread replies hold file descriptors that others wait for")
            elif connection.too_slow(now_ms, crowded):
                connection.close("a request arrived too slowly")
            elif 0 <= idle_ms_max < now_ms - connection.active_ms and not connection.waiting:
                connection.close("")

    async def _expire_producers(self) -> None:
        """By time periodically; by number whenever the broker has too many."""
        broker, wall_ms = self._broker, self._broker.clock.wall_ms()
        by_time = self._ticks % EXPIRE_EVERY_TICKS == 0
        total = sum(len(log.producers) for log in broker.logs.logs.values())
        excess = max(0, total - PRODUCERS_MAX)
        slice_end = broker.loop.time() + RETENTION_SLICE_S
        for log in tuple(broker.logs.logs.values()) if excess or by_time else ():
            if by_time:
                log.producers.expire(wall_ms, log.config.producer_id_expiration_ms)
            if excess and (known := len(log.producers)):
                log.producers.expire_oldest(-(-known * excess // total))
            if broker.loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = broker.loop.time() + RETENTION_SLICE_S

    async def _tidy(self, log_directory: OpenLogDirectory) -> None:
        log_directory.try_again()
        try:
            await log_directory.sync_sealed()
            self._flush_due(log_directory)
        except OSError as error:
            log_directory.lose(f"sync failed: {error}")
            return
        if self._ticks % CHECKPOINT_EVERY_TICKS == 0 or log_directory.full:
            await log_directory.checkpoint()
        await log_directory.remove_gone(self._broker.clock.monotonic_ms())

    def _flush_due(self, log_directory: OpenLogDirectory) -> None:
        """Logs with records that have waited for flush.ms."""
        now_ms = self._broker.clock.monotonic_ms()
        for log in log_directory.logs.logs.values():
            if log.config.flush_ms == INT64_MAX:
                continue
            if log.durable_offset >= log.end_offset:
                log.flushed_ms = now_ms
            elif now_ms - log.flushed_ms >= log.config.flush_ms:
                log.flushed_ms = now_ms
                log_directory.flush(log)

    def _report_waiting(self, log: Log, waited: int) -> None:
        """Segments that stay, or have gone, although their records are not in the topic's table."""
        limit = log.config.waiting_bytes_max
        if log.lost_segments:
            self._broker.log.error(
                "records deleted before they were in the lake's table",
                partition=log.partition,
                segments=log.lost_segments,
                limit_bytes=limit,
                remedy="look at the pipeline, or raise lake.retention.wait.bytes",
            )
        elif log.waiting_bytes and (not waited or log.size * 2 > limit):
            self._broker.log.warning(
                "retention waits for the lake's table",
                partition=log.partition,
                waiting_bytes=log.waiting_bytes,
                log_bytes=log.size,
                limit_bytes=limit,
            )

    async def _retain(self) -> None:
        """Delete segments by time and size, once per log.retention.check.interval.ms."""
        broker, clock = self._broker, self._broker.clock
        now_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        if now_ms - self._retention_ms < broker.config.log_retention_check_interval_ms:
            return
        self._retention_ms = now_ms
        jump_ms = wall_ms - now_ms - self._clock_offset_ms
        self._clock_offset_ms += jump_ms
        if abs(jump_ms) > CLOCK_JUMP_MS:
            # An operator may be about to correct the clock; a deletion cannot be undone.
            broker.log.warning("clock jumped: nothing is deleted until the next check", ms=jump_ms)
            return
        slice_end = broker.loop.time() + RETENTION_SLICE_S
        for log in tuple(broker.logs.logs.values()):
            if broker.logs.logs.get(log.partition) is not log:
                continue  # deleted while other work ran
            waited = log.waiting_bytes
            try:
                log.apply_retention(wall_ms)
                self._report_waiting(log, waited)
            except (OSError, KafkaError) as error:
                broker.log.warning(
                    "retention not applied", partition=log.partition, reason=str(error)
                )
            if broker.loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = broker.loop.time() + RETENTION_SLICE_S
