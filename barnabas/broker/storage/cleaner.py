"""Has the dirtiest log compacted, and replaces its segments by the compacted ones.

In: the broker's logs, reports of the worker. Out: shorter logs, and log lines with the reason.
Always: the loop only renames files; the worker reads and writes, a thread syncs.
Always: a log that cannot be compacted is reported once, and ignored until the next start.
Not here: which log and why (log/compaction/cleanable.py), which records
(log/compaction/compaction.py).
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.context import BrokerContext
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.storage.moves import Moves
from barnabas.broker.storage.storage import Storage
from barnabas.log.compaction.cleanable import Cleanable, dirtiest, job_for, look, may_be_due
from barnabas.log.compaction.job import CleanedSegment
from barnabas.log.compaction.segment_swap import SegmentSwap
from barnabas.log.log import Log
from barnabas.model.errors import KafkaError
from barnabas.model.system_errors import NO_ROOM, OUT_OF_RESOURCES

if TYPE_CHECKING:
    from barnabas.broker.storage.cleaner_process import CleanerProcess
    from barnabas.broker.storage.cleaner_protocol import CompactionDone, CompactionStopped

FAILURE_BACKOFF_MS = 60_000  # a full disk, a worker that was killed


class CleanerContext(BrokerContext, Protocol):
    """What this module needs of the broker."""

    logs: Storage
    moves: Moves


class Cleaner:
    """Checks the logs every log.cleaner.backoff.ms, and works while any log is due."""

    def __init__(self, broker: CleanerContext) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._process: CleanerProcess | None = None
        self._stopping = asyncio.Event()
        self.current: Cleanable | None = None
        self.unfit: dict[Log, str] = {}  # logs that cannot be compacted, and why
        self.runs = 0
        self.failures = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_dropped = 0
        self.busy_ms = 0

    def start(self) -> None:
        if self._broker.config.log_cleaner_enable:
            self._task = self._broker.loop.create_task(self._run())

    async def stop(self) -> None:
        """A swap that has begun is finished; other work is discarded."""
        self._stopping.set()
        if self._process is not None:
            await self._process.close()
        if self._task is not None:
            await self._task

    @property
    def worker_pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def _run(self) -> None:
        broker = self._broker
        while not self._stopping.is_set():
            wait_ms = broker.config.log_cleaner_backoff_ms
            self._forget_gone()
            found = dirtiest(self._looked_at())
            if found is not None:
                self.current = found
                try:
                    if await self._compact(found):
                        continue
                except Exception as error:
                    self._failed(found.log, repr(error), for_good=True)
                    continue
                finally:
                    self.current = None
                wait_ms = max(wait_ms, FAILURE_BACKOFF_MS)
            if self._process is not None:
                await self._process.end()  # its memory is freed while there is no work
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), max(wait_ms, 50) / 1000)

    def _looked_at(self) -> Iterator[Cleanable]:
        wall_ms = self._broker.clock.wall_ms()
        for log in tuple(self._broker.logs.logs.values()):
            if not may_be_due(log) or log in self.unfit or self._is_moving(log):
                continue
            try:
                yield look(log, wall_ms)
            except (OSError, KafkaError) as error:
                scarce = isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES
                self._failed(log, str(error), for_good=not scarce)

    def _is_moving(self, log: Log) -> bool:
        """An incomplete copy would keep a record, and miss the tombstone that was removed with
        it."""
        return self._broker.moves.of(log.partition) is not None

    def _forget_gone(self) -> None:
        logs = self._broker.logs.logs
        for log in [log for log in self.unfit if logs.get(log.partition) is not log]:
            del self.unfit[log]

    async def _compact(self, found: Cleanable) -> bool:
        """True if the next log can be compacted at once: this one is cleaner now, or is ignored."""
        from barnabas.broker.storage.cleaner_process import CleanerProcess
        from barnabas.broker.storage.cleaner_protocol import CompactedSegment, CompactionOrder

        broker, log = self._broker, found.log
        log_directory = broker.logs.home(log.partition)
        if not await log_directory.checkpoint() or self._stopping.is_set():
            return False
        config = broker.config
        wall_ms, began_ms = broker.clock.wall_ms(), broker.clock.monotonic_ms()
        job = job_for(found, wall_ms, config.log_cleaner_dedupe_buffer_size)
        if self._process is None:
            self._process = CleanerProcess()
        swapped: list[CleanedSegment] = []
        whole = True
        order = CompactionOrder(job, config.log_cleaner_io_max_bytes_per_second)
        async for report in self._process.carry_out(order):
            if isinstance(report, CompactedSegment):
                if await self._swap(log, report.cleaned):
                    swapped.append(report.cleaned)
                else:
                    whole = False
                continue
            self.busy_ms += broker.clock.monotonic_ms() - began_ms
            asked = [source.base_offset for source in job.sources]
            cleaner = self._finish(found, report, swapped, whole, asked, began_ms)
            if cleaner:
                await log_directory.checkpoint()
            return cleaner
        return False

    def _finish(
        self,
        found: Cleanable,
        report: "CompactionDone | CompactionStopped",
        swapped: list[CleanedSegment],
        whole: bool,
        bases_asked: list[int],
        began_ms: int,
    ) -> bool:
        from barnabas.broker.storage.cleaner_protocol import CompactionStopped

        log = found.log
        if self._stopping.is_set():
            return False
        if self._broker.logs.logs.get(log.partition) is not log:
            return True  # it was deleted meanwhile
        if found.cuts != log.cuts:
            return True  # it was truncated meanwhile: discard what was read and written
        if isinstance(report, CompactionStopped):
            # Files may be missing because their segments were deleted, which is no error; or
            # without that.
            bases = {segment.base_offset for segment in log.segments}
            missing = report.gone and all(base in bases for base in bases_asked)
            if missing or not report.gone:
                self._failed(log, report.reason, for_good=missing or report.damaged)
            return report.gone or report.damaged  # other logs may be due
        if not whole:
            return True  # its segments were deleted meanwhile: check it again
        log.cleaned_to = max(log.cleaned_to, report.end_offset)
        read = sum(each.bytes_read for each in swapped)
        written = sum(each.size for each in swapped)
        dropped = sum(each.records_read - each.records_kept for each in swapped)
        keyless = sum(each.keyless for each in swapped)
        self.runs += 1
        self.bytes_read += read
        self.bytes_written += written
        self.records_dropped += dropped
        self._broker.log.info(
            "log compacted",
            partition=log.partition,
            why=found.due,
            to=report.end_offset,
            keys=report.keys,
            bytes=f"{read} to {written}",
            records_dropped=dropped,
            ms=self._broker.clock.monotonic_ms() - began_ms,
        )
        if keyless:
            self._broker.log.warning(
                "records without a key dropped", partition=log.partition, records=keyless
            )
        return True

    def _failed(self, log: Log, reason: str, *, for_good: bool) -> None:
        self.failures += 1
        if self._stopping.is_set():
            return
        if for_good:
            self.unfit[log] = reason
        self._broker.log.error(
            "log not compacted",
            partition=log.partition,
            reason=reason,
            again="after a restart" if for_good else "later",
        )

    async def _swap(self, log: Log, cleaned: CleanedSegment) -> bool:
        """False if the segments it was made from do not exist any more."""
        logs = self._broker.logs
        if logs.logs.get(log.partition) is not log or self._is_moving(log):
            return False
        log_directory = logs.home(log.partition)
        async with log_directory.renaming:
            if logs.logs.get(log.partition) is not log:
                return False
            swap = SegmentSwap(log, cleaned, log_directory.logs.delete_later)
            try:
                for directory in swap.steps():
                    await self._sync_directory(log_directory, directory)
            except OSError as error:
                if error.errno in NO_ROOM and not swap.switched:  # nothing has changed
                    self._failed(log, str(error), for_good=False)
                    return False
                log_directory.lose(f"the segments were not replaced by compacted ones: {error}")
        return swap.done

    async def _sync_directory(self, log_directory: OpenLogDirectory, directory: str) -> None:
        """If the disk is full, retried until there is space: the next step must not come first."""
        said = False
        while True:
            try:
                await log_directory.sync_directory(directory)
                return
            except OSError as error:
                if error.errno not in NO_ROOM or self._stopping.is_set():
                    raise
                if not said:
                    said = True
                    self._broker.log.error(
                        "compaction waits: the disk is full", path=directory, reason=str(error)
                    )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 1)
