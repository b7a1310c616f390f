"""What a broker does at leisure: syncs, checkpoints, retention, idle connections, deleted files.

Always: whatever may wait for the disk runs in a thread of its own, never on the loop, and
touches nothing that the loop changes.
"""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from barnabas.broker.connection import Door
from barnabas.log.log import Log
from barnabas.model.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

TICK_S = 1.0
CHECKPOINT_EVERY_TICKS = 5
EXPIRE_EVERY_TICKS = 600
RETENTION_DELAY_MS = 30_000  # after a start, as in Kafka
RETENTION_SLICE_S = 0.005
CLOCK_JUMP_MS = 3_600_000
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Housekeeping:
    """One tick a second; one piece of disk work at a time."""

    def __init__(self, broker: "Broker", door: Door) -> None:
        self._broker = broker
        self._door = door
        self._ticks = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="housekeeping")
        self._work: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._disk_full = False  # found when a checkpoint was last written
        self._retention_ms = 0  # when segments were last looked at, by the clock that never jumps
        self._clock_offset_ms = 0  # of the clock people read, at that time
        # Held while logs are synced by their paths, and while logs are renamed.
        self.paths = asyncio.Lock()

    def start(self) -> None:
        clock = self._broker.clock
        self._door.now_ms = now_ms = clock.monotonic_ms()
        self._clock_offset_ms = clock.wall_ms() - now_ms
        interval_ms = self._broker.config.log_retention_check_interval_ms
        self._retention_ms = now_ms + min(0, RETENTION_DELAY_MS - interval_ms)
        self._timer = self._broker.loop.call_later(TICK_S, self._tick)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._work is not None:
            await self._work
        self._thread.shutdown()

    def _tick(self) -> None:
        self._ticks += 1
        self._door.now_ms = now_ms = self._broker.clock.monotonic_ms()
        self._close_idle(now_ms)
        if self._ticks % EXPIRE_EVERY_TICKS == 0:
            self._expire_producers()
        if self._work is None or self._work.done():
            self._work = self._broker.loop.create_task(self._tidy())
        self._timer = self._broker.loop.call_later(TICK_S, self._tick)

    def _close_idle(self, now_ms: int) -> None:
        idle_ms_max = self._broker.config.connections_max_idle_ms
        crowded = self._door.buffers.crowded  # asked once: each that goes makes room
        for connection in tuple(self._broker.connections):
            if connection.too_slow(now_ms, crowded):
                connection.close("a request came in too slowly")
            elif 0 <= idle_ms_max < now_ms - connection.active_ms and not connection.waiting:
                connection.close("")

    def _expire_producers(self) -> None:
        wall_ms = self._broker.clock.wall_ms()
        for log in self._broker.logs.logs.values():
            log.producers.expire(wall_ms, log.config.producer_id_expiration_ms)

    async def _tidy(self) -> None:
        logs = self._broker.logs
        try:
            for log in logs.take_rolled():
                await self._sync(log)
            if self._ticks % CHECKPOINT_EVERY_TICKS == 0 or self._disk_full:
                await self._checkpoint()
            await self._retain()
        except OSError as error:
            self._failed(error)
            return
        for path in logs.take_removals(self._broker.clock.monotonic_ms()):
            await self._remove_file(path)
        doomed, logs.deleted = logs.deleted, []
        for path in doomed:
            await self._remove(path)

    async def _retain(self) -> None:
        """Let go of what is too old or too much, once per log.retention.check.interval.ms."""
        broker, clock = self._broker, self._broker.clock
        now_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        if now_ms - self._retention_ms < broker.config.log_retention_check_interval_ms:
            return
        self._retention_ms = now_ms
        jump_ms = wall_ms - now_ms - self._clock_offset_ms
        self._clock_offset_ms += jump_ms
        if abs(jump_ms) > CLOCK_JUMP_MS:
            # Somebody may be about to put it right; what is deleted by mistake is gone.
            broker.log.warning("clock jumped: nothing is deleted until the next check", ms=jump_ms)
            return
        slice_end = broker.loop.time() + RETENTION_SLICE_S
        for log in tuple(broker.logs.logs.values()):
            if broker.logs.logs.get(log.partition) is not log:
                continue  # deleted while others had their turn
            try:
                log.apply_retention(wall_ms)
            except (OSError, KafkaError) as error:
                broker.log.warning(
                    "retention not applied", partition=log.partition, reason=str(error)
                )
            if broker.loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = broker.loop.time() + RETENTION_SLICE_S

    async def checkpoint_now(self) -> bool:
        """For what must not happen before it is on disk; False if it is not."""
        try:
            return await self._checkpoint()
        except OSError as error:
            self._failed(error)
            return False

    async def _checkpoint(self) -> bool:
        # Made and handed to the one thread without an await between: the last made is on disk.
        logs, log = self._broker.logs, self._broker.log
        checkpoint = logs.pending_checkpoint()
        if checkpoint is None:
            return True
        try:
            await self._in_thread(checkpoint.run)
        except OSError as error:
            logs.not_written(checkpoint)
            if error.errno not in NO_ROOM:
                raise
            # The files of before are whole, only older: a recovery would read a little more.
            if not self._disk_full:
                log.error("checkpoint not written: make room", path=logs.path, reason=str(error))
            self._disk_full = True
            return False
        logs.written(checkpoint)
        for deletion in logs.take_deletions():
            log.info("segment deleted", **deletion._asdict())
        if self._disk_full:
            log.info("checkpoint written: there is room again", path=logs.path)
        self._disk_full = False
        return True

    def _failed(self, error: OSError) -> None:
        """After a failed sync nobody knows what is on the disk; trying again would only hide it.

        Stop at once, without the marker of a clean stop.
        """
        self._broker.give_up(f"the data directory failed: {error}")

    async def _sync(self, log: Log) -> None:
        async with self.paths:
            if self._broker.logs.logs.get(log.partition) is not log:
                return  # deleted: its paths are gone, or another log's by now
            flush = log.pending_flush(sealed_only=True)
            if flush is not None:
                await self._in_thread(flush.run)
                log.flushed(flush)

    async def sync_directory(self, path: str) -> None:
        await self._in_thread(lambda: self._broker.disk.sync_directory(path))

    async def _remove(self, path: str) -> None:
        try:
            await self._in_thread(lambda: self._broker.disk.remove_tree(path))
        except OSError as error:
            self._broker.log.warning("deleted log not removed", path=path, reason=str(error))

    async def _remove_file(self, path: str) -> None:
        try:
            await self._in_thread(lambda: self._broker.disk.remove(path))
        except OSError as error:
            self._broker.log.warning("deleted file not removed", path=path, reason=str(error))

    async def _in_thread(self, call: Callable[[], None]) -> None:
        await self._broker.loop.run_in_executor(self._thread, call)
