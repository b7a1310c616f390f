"""Moves logs from one directory to another while they are written and read.

In: a partition and its new log directory. Out: the same records there, and the source deleted.
Always: the copy is not read until it is complete; the switch happens between two requests.
Always: at any crash, one of the two directories has the whole log; the source is deleted once the
copy is synced, with its indexes, its directory and the checkpoint that has its offsets. Until then
a mark in the source says that the copy may have newer records.
Not here: the request (handlers/alter_replica_log_dirs.py), the files (log/directory/directory.py).
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Protocol

from barnabas.broker.context import BrokerContext
from barnabas.broker.partition import Partition
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.storage.storage import Storage
from barnabas.log.log import Log
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.system_errors import NO_ROOM
from barnabas.replication.throttle import Throttle

COPY_BYTES = 1 << 20  # read and written at a time
WAIT_MS_MAX = 1_000  # until the rate is checked again
SWITCH_BYTES_MAX = 256 * 1024  # what may be left to copy on the loop


class LogMove:
    """One log that is being moved; `copy` has the records copied so far."""

    def __init__(self, partition: Partition, to: OpenLogDirectory) -> None:
        self.partition = partition
        self.to = to
        self.copy: Log | None = None
        self.task: asyncio.Task[None] | None = None
        self.switched = False  # the copy is the partition's log; only the source is left to delete


class MovesContext(BrokerContext, Protocol):
    """What this module needs of the broker."""

    logs: Storage


class Moves:
    """All moves of a broker; one at a time, the others wait."""

    def __init__(self, broker: MovesContext) -> None:
        self._broker = broker
        self._moves: dict[TopicPartition, LogMove] = {}
        self._one_at_a_time = asyncio.Lock()
        rate = broker.config.replica_alter_log_dirs_io_max_bytes_per_second
        self._throttle = Throttle(rate, broker.clock.monotonic_ms())

    def of(self, partition: TopicPartition) -> LogMove | None:
        return self._moves.get(partition)

    def begin(self, partition: Partition, to: OpenLogDirectory) -> None:
        """Cancels an earlier move to another directory; a move to the log's present directory is
        none."""
        before = self._moves.pop(partition.name, None)
        if before is not None and before.task is not None and not before.switched:
            before.task.cancel()  # otherwise it would finish first: moves wait for each other
        if partition.log_directory is not to:
            move = self._moves[partition.name] = LogMove(partition, to)
            move.task = self._broker.loop.create_task(self._run(move))

    async def stop(self) -> None:
        tasks = [move.task for move in self._moves.values() if move.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, move: LogMove) -> None:
        log, name = self._broker.log, move.partition.name
        try:
            async with self._one_at_a_time:
                log.info("log moving", partition=name, to=move.to.path)
                while not await self._copied(move):
                    log.info("log move restarted: it was truncated meanwhile", partition=name)
                    self._drop_copy(move)
        except (OSError, KafkaError) as error:
            log.error("log not moved", partition=name, to=move.to.path, reason=str(error))
        else:
            log.info("log moved", partition=name, to=move.to.path)
        finally:
            self._drop_copy(move)
            if self._moves.get(name) is move:
                del self._moves[name]

    def _drop_copy(self, move: LogMove) -> None:
        if move.copy is not None:
            copy, move.copy = move.copy, None
            with suppress(OSError):
                move.to.logs.drop_copy(copy)

    async def _copied(self, move: LogMove) -> bool:
        """Copy, then switch; False if the next records, or copied ones, were deleted meanwhile."""
        partition, to = move.partition, move.to
        source = partition.log
        start, cuts = source.start_offset, source.cuts
        config = source.config
        copy = move.copy = await to.in_thread(
            lambda: to.logs.create_copy(partition.name, source.topic_id, config, start)
        )
        while True:
            if not partition.is_open or partition.log is not source:
                raise KafkaError(Code.KAFKA_STORAGE_ERROR, "the log was deleted or went offline")
            if copy.end_offset < source.start_offset or source.cuts != cuts:
                return False
            await self._wait_for_its_share()
            left = await self._copy_some(source, copy, to)
            if left <= SWITCH_BYTES_MAX:
                await to.in_thread(copy.flush)
                if not _holes_are_durable(copy, source):
                    continue
                to.logs.announce(copy)
                self._broker.logs.copy_mark(partition.name, to)
                if not await to.checkpoint():
                    raise KafkaError(
                        Code.KAFKA_STORAGE_ERROR, f"{to.path}: no checkpoint: the disk is full"
                    )
                home = partition.log_directory
                if home is None or not home.online:
                    continue
                try:
                    await home.in_thread(partial(_mark_moved, home, source))
                    if await self._switch(move, source, copy, cuts):
                        return True
                finally:
                    if not move.switched:
                        with suppress(OSError):
                            home.logs.unmark_moved(source)

    async def _wait_for_its_share(self) -> None:
        throttle, clock = self._throttle, self._broker.clock
        while True:  # the rate may change meanwhile
            rate = self._broker.config.replica_alter_log_dirs_io_max_bytes_per_second
            throttle.set_rate(rate, clock.monotonic_ms())
            wait_ms = throttle.wait_ms(clock.monotonic_ms())
            if not wait_ms:
                return
            await asyncio.sleep(min(wait_ms, WAIT_MS_MAX) / 1000)

    async def _copy_some(self, source: Log, copy: Log, to: OpenLogDirectory) -> int:
        """Returns about how many bytes are left after another piece."""
        piece = source.read_for_copy(max(copy.end_offset, source.start_offset), COPY_BYTES)
        if piece.file_slice is None:
            return 0
        file, position, length = (
            piece.file_slice.file,
            piece.file_slice.position,
            piece.file_slice.length,
        )
        wall_ms = self._broker.clock.wall_ms()
        await to.in_thread(lambda: copy.append_copied(file.read(position, length), wall_ms))
        self._throttle.took(length, self._broker.clock.monotonic_ms())
        behind = source.end_offset - copy.end_offset
        records = max(1, source.end_offset - source.start_offset)
        return source.size * behind // records

    async def _switch(self, move: LogMove, source: Log, copy: Log, cuts: int) -> bool:
        """Without a pause: copy the last records, rename, and replace the old log by the new
        one."""
        partition, to, home = move.partition, move.to, move.partition.log_directory
        assert home is not None
        storage, wall_ms = self._broker.logs, self._broker.clock.wall_ms()
        async with to.renaming, home.renaming:
            if partition.log is not source or not (to.online and home.online):
                return False
            if source.cuts != cuts or copy.end_offset < source.start_offset:
                return False
            while copy.end_offset < source.end_offset:
                piece = source.read_for_copy(copy.end_offset, COPY_BYTES)
                if piece.file_slice is None:
                    break
                data = piece.file_slice.file.read(
                    piece.file_slice.position, piece.file_slice.length
                )
                copy.append_copied(data, wall_ms)
            to.logs.adopt(copy, source)
            move.copy, move.switched = None, True
            home.logs.retire(source)
            partition.moved(copy, to)
            storage.moved(partition.name, copy, to)
        if await self._made_durable(copy, to):
            await self._delete_source(home, source)
        return True

    async def _made_durable(self, log: Log, log_directory: OpenLogDirectory) -> bool:
        """Sync a log that has just moved; on a full disk, as soon as there is space.

        False if the directory failed or the log was deleted.
        """
        while True:
            if not await log_directory.synced(log):
                return True
            if not log_directory.online or log_directory.logs.logs.get(log.partition) is not log:
                return False
            await asyncio.sleep(WAIT_MS_MAX / 1000)

    async def _delete_source(self, home: OpenLogDirectory, source: Log) -> None:
        async with home.renaming:
            if not home.online or home.logs.moving.get(source.partition) is not source:
                return  # the partition was deleted meanwhile, and the source with it
            try:
                home.logs.end_move(source.partition)
                await home.sync_directory(home.path)
            except OSError as error:
                home.fail(error)
                raise
        await home.checkpoint()


def _mark_moved(home: OpenLogDirectory, source: Log) -> None:
    try:
        home.logs.mark_moved(source)
    except OSError as error:
        if error.errno not in NO_ROOM:  # logs are moved away from a full disk
            raise


def _holes_are_durable(copy: Log, source: Log) -> bool:
    """Whether all offsets that may have been compacted are below the copy's recovery point.

    A start after a crash treats missing offsets above the recovery point as damage.
    """
    if not source.config.compacted and not source.cleaned_to:
        return True
    return copy.recovery_point >= source.segments[-1].base_offset
