"""One log directory in use: the thread that waits for its disk, and the state of that disk.

In: logs to sync, files to remove. Out: durable logs, or a failure that is reported once.
Always: calls that may wait for this disk run in this log directory's thread, so a disk that stalls
delays neither the loop nor the other log directories.
Always: after a failed sync the contents of the disk are unknown, and the sync is not simply
retried. A sync that found the disk full is repeated once the records that were not durable have
been written again (log/flush.py); any other failure takes the directory offline.
Always: every waiter of a sync gets its result, also after an unexpected error.
Not here: which log directory a log is on (storage.py), periodic work (housekeeping.py).
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.log.directory.directory import LogDirectory
from barnabas.log.log import Log
from barnabas.model.errors import Code, Failed
from barnabas.model.ports import Disk, FileSlice
from barnabas.model.system_errors import NO_DESCRIPTORS, NO_ROOM, OUT_OF_RESOURCES
from barnabas.system.logs import Logger

WARM_BYTES = 1 << 20
DESCRIPTORS_WAIT_S = 0.1
DESCRIPTORS_TRIES_MAX = 100
SHORTAGE_SAID_EVERY_S = 10.0

T = TypeVar("T")


class OpenLogDirectory:
    """`failed` is called with the first error after which the directory cannot be trusted."""

    def __init__(
        self,
        logs: LogDirectory,
        disk: Disk,
        log: Logger,
        failed: "Callable[[OpenLogDirectory, str], None]",
    ) -> None:
        self.logs = logs
        self.path = logs.path
        self.failure = ""  # why it is offline
        self._disk = disk
        self._log = log
        self._on_failure = failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._full = False  # when a checkpoint was last written
        self._checkpoint_said = False  # that a checkpoint was not written
        self._shortage_said_s = -SHORTAGE_SAID_EVERY_S
        self._snapshots_said = False  # that a producer snapshot was not written
        self.cannot_sync = ""  # why the last sync failed, if the disk was full
        self._no_room_said = False
        # Flushes to request when there may be space.
        self._again: dict[Log, Callable[[], None]] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._to_flush: dict[Log, list[DeferredReply[str]]] = {}
        # Held while logs are synced, by their paths too, and while logs are renamed or truncated.
        self.renaming = asyncio.Lock()

    @property
    def online(self) -> bool:
        return not self.failure

    @property
    def full(self) -> bool:
        """Whether the disk was full at the last checkpoint."""
        return self._full

    def fail(self, error: OSError) -> None:
        """Take the directory offline, unless the disk is full or the error is not the disk's."""
        if error.errno in OUT_OF_RESOURCES:
            self.out_of_resources(error)
        elif self.online and error.errno not in NO_ROOM:
            self.lose(str(error))

    def out_of_resources(self, error: OSError) -> None:
        """The process has no descriptor or memory left: free some, and log it."""
        self.logs.close_cooled_files()
        now_s = asyncio.get_running_loop().time()
        if now_s - self._shortage_said_s >= SHORTAGE_SAID_EVERY_S:
            self._shortage_said_s = now_s
            self._log.error(
                "request refused: the process is out of file descriptors or memory",
                path=self.path,
                reason=str(error),
                remedy="raise the limit of open files (ulimit -n), or give the broker more memory",
            )

    def lose(self, reason: str) -> None:
        if self.online:
            self.failure = reason
            self._on_failure(self, reason)

    async def close(self) -> None:
        if self._flushing is not None:
            await self._flushing
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _once_opened(self, call: Callable[[], None]) -> None:
        """Without a free descriptor the file was not opened, so it is unchanged: retry."""
        for left in reversed(range(DESCRIPTORS_TRIES_MAX)):
            try:
                await self.in_thread(call)
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not left:
                    raise
                self.out_of_resources(error)
            await asyncio.sleep(DESCRIPTORS_WAIT_S)

    async def warm(self, slices: Iterable[FileSlice]) -> None:
        """Read them once, so that the next reader does not wait for the disk."""
        try:
            await self.in_thread(lambda: _read_through(slices))
        except OSError as error:
            self.fail(error)

    # Group commit

    def flush(self, log: Log) -> DeferredReply[str]:
        """Sync all records of the log; the result is empty, or says why they are not durable.

        Requests during a sync share the next sync.
        """
        deferred: DeferredReply[str] = DeferredReply()
        if not self.online:
            deferred.set(self.failure)
            return deferred
        self._to_flush.setdefault(log, []).append(deferred)
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_all())
        return deferred

    async def synced(self, log: Log) -> str:
        """The same, for a caller that can await it."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.flush(log).then(lambda reason: None if answer.done() else answer.set_result(reason))
        return await answer

    async def _flush_all(self) -> None:
        while self._to_flush:
            log = next(iter(self._to_flush))
            waiting: list[DeferredReply[str]] = []
            reason = "not synced: the broker is stopping"
            try:
                async with self.renaming:
                    waiting = self._to_flush.pop(log, [])
                    reason = self.failure or await self._flush(log)
            finally:
                waiting += self._to_flush.pop(log, []) if not waiting else []
                self._complete_all(waiting, reason)

    def _complete_all(self, waiting: list[DeferredReply[str]], reason: str) -> None:
        for deferred in waiting:
            try:
                deferred.set(reason)
            except Exception as error:  # its own error: the others get their result nonetheless
                self._log.error("error after a sync", path=self.path, reason=repr(error))

    async def _flush(self, log: Log) -> str:
        """Empty, or why it is not durable; never raises."""
        if self.logs.logs.get(log.partition) is not log:
            return f"{log.partition} was deleted"
        try:
            await self._write_snapshots(log)
            work = log.pending_flush()  # may open files
            if work is None:
                return ""
            await self._once_opened(work.run)
            log.flushed(work)
        except Exception as error:  # any error: the waiters must get a result
            if isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
                return f"not synced: {error}"  # nothing is lost: the next sync includes it
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                return self._no_room(log, error)
            self.lose(f"sync failed: {error}")
            return self.failure
        self._synced()
        return ""

    def _no_room(self, log: Log, error: OSError) -> str:
        """None of it is acknowledged; it is written again before it is synced again."""
        log.sync_found_no_room()
        self.cannot_sync = f"not synced: {error}; free space on {self.path}"
        if not self._no_room_said:
            self._no_room_said = True
            self._log.error("sync failed: the disk is full", path=self.path, reason=str(error))
        return self.cannot_sync

    def _synced(self) -> None:
        self.cannot_sync = ""
        if self._no_room_said:
            self._no_room_said = False
            self._log.info("synced: there is disk space again", path=self.path)

    def when_space(self, log: Log, flush_again: Callable[[], None]) -> None:
        """Call it when another sync may succeed, within about a second."""
        self._again[log] = flush_again

    def try_again(self) -> None:
        """There may be space again."""
        self.cannot_sync = ""
        again, self._again = self._again, {}
        for flush_again in again.values():
            flush_again()

    # Periodic work

    async def sync_sealed(self) -> None:
        """Segments that were rolled since the last call."""
        for log in self.logs.take_rolled():
            try:
                await self._sync_sealed(log)
            except OSError as error:
                if error.errno in NO_ROOM:
                    self._no_room(log, error)
                elif error.errno not in NO_DESCRIPTORS:
                    raise
                self.logs.rolled(log)  # with the next call

    async def _sync_sealed(self, log: Log) -> None:
        async with self.renaming:
            if self.logs.logs.get(log.partition) is not log:
                return  # deleted: its paths do not exist, or belong to another log
            await self._write_snapshots(log)
            flush = log.pending_flush(sealed_only=True)
            if flush is not None:
                await self._once_opened(flush.run)
                log.flushed(flush)
                self._synced()

    async def _write_snapshots(self, log: Log) -> None:
        """Producer snapshots of the log's last rolls; call it with `renaming` held.

        Without space or descriptors they stay pending, and the log can be synced nonetheless: only
        its recovery point waits.
        """
        work = log.pending_snapshots()
        if work is None:
            return
        try:
            await self._once_opened(work.run)
            log.snapshots_written(work)
        except OSError as error:
            if error.errno not in NO_ROOM and error.errno not in NO_DESCRIPTORS:
                raise
            self.logs.rolled(log)  # retried with the next call of `sync_sealed`
            if not self._snapshots_said:
                self._snapshots_said = True
                self._log.error(
                    "producer snapshot not written: full disk", path=log.path, reason=str(error)
                )
            return
        self._snapshots_said = False

    async def sync_directory(self, path: str) -> None:
        await self._once_opened(lambda: self._disk.sync_directory(path))

    async def checkpoint(self) -> bool:
        """For operations that require it on disk first; False if it is not."""
        if not self.online:
            return False
        try:
            return await self._checkpoint()
        except OSError as error:
            self.lose(f"checkpoint failed: {error}")
            return False

    async def _checkpoint(self) -> bool:
        # Built and passed to the one thread without an await between: the last one built is on
        # disk.
        checkpoint = self.logs.pending_checkpoint()
        if checkpoint is None:
            return True
        try:
            await self.in_thread(checkpoint.run)
        except OSError as error:
            self.logs.not_written(checkpoint)
            self._checkpoint_failed(error)
            return False
        self.logs.written(checkpoint)
        for deletion in self.logs.take_deletions():
            self._log.info("segment deleted", **deletion._asdict())
        if self._full:
            self._log.info("checkpoint written: there is disk space again", path=self.path)
        self._full = self._checkpoint_said = False
        return True

    def _checkpoint_failed(self, error: OSError) -> None:
        """The previous files are intact, only older: a recovery would read a little more."""
        cause = "full disk"
        if error.errno in OUT_OF_RESOURCES:
            self.logs.close_cooled_files()
            cause = "out of file descriptors or memory"
        elif error.errno in NO_ROOM:
            self._full = True
        else:
            raise error
        if not self._checkpoint_said:
            self._checkpoint_said = True
            self._log.error(f"checkpoint not written: {cause}", path=self.path, reason=str(error))

    async def remove_gone(self, now_ms: int) -> None:
        """Remove renamed files and directories when their delay is over."""
        for path in self.logs.take_removals(now_ms):
            await self._remove(path, self._disk.remove)
        to_delete, self.logs.deleted = self.logs.deleted, []
        for path in to_delete:
            await self._remove(path, self._disk.remove_tree)

    async def _remove(self, path: str, remove: Callable[[str], None]) -> None:
        try:
            await self.in_thread(lambda: remove(path))
        except OSError as error:
            self._log.warning("deleted file not removed", path=path, reason=str(error))


def _read_through(slices: Iterable[FileSlice]) -> None:
    for file, position, length in ((each.file, each.position, each.length) for each in slices):
        for start in range(position, position + length, WARM_BYTES):
            file.read(start, min(WARM_BYTES, position + length - start))


def storage_error(what: object, reason: str) -> Failed:
    return Failed(Code.KAFKA_STORAGE_ERROR, f"{what}: its log directory is offline: {reason}")
