"""All logs of the broker: in which log directory each one is, and what happens when a disk fails.

In: the paths of log directories. Out: logs, in any directory; log directories that failed.
Always: a log is in one log directory; a new one goes to the log directory that has the fewest.
Always: a log directory that failed is offline until the next start; a partition that may be on it
is not created again elsewhere.
Not here: the files of a directory (log/directory/directory.py), waiting for disks
(log_directory.py).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from uuid import UUID

from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoints import MetaProperties
from barnabas.log.directory.directory import IncompleteMark
from barnabas.log.directory.opening import open_log_directory
from barnabas.log.log import Log
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk
from barnabas.model.system_errors import OUT_OF_RESOURCES
from barnabas.system.logs import Logger


class Storage:
    """Opened and closed together; `failed` is called for each log directory that goes offline."""

    def __init__(self, disk: Disk, log: Logger, failed: Callable[[OpenLogDirectory], None]) -> None:
        self._disk = disk
        self._log = log
        self._failed = failed
        self.log_directories: list[
            OpenLogDirectory
        ] = []  # those that could be opened, offline ones included
        self.unopened: dict[str, str] = {}  # paths, and why not
        self.logs: dict[TopicPartition, Log] = {}  # of log directories that are online
        self._homes: dict[TopicPartition, OpenLogDirectory] = {}
        self.damaged: dict[TopicPartition, str] = {}  # logs that cannot be opened, and why
        self._closed_cleanly: dict[TopicPartition, Log] = {}  # as the last process left them

    # Start and stop

    def open(
        self,
        paths: Iterable[str],
        meta: Callable[[], MetaProperties],
        config_for: Callable[[str], LogConfig],
        open_segments_max: int,
    ) -> None:
        """Unreadable directories are left out, if at least one can be read."""
        problem: OSError | KafkaError | None = None
        for path in paths:
            try:
                logs = open_log_directory(
                    self._disk,
                    path,
                    meta=meta(),
                    config_for=config_for,
                    open_segments_max=max(4, open_segments_max),
                )
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    raise  # the directory may be intact: a start with a higher limit will show
                problem = error
                self.unopened[path] = str(error)
                continue
            self._take_up(OpenLogDirectory(logs, self._disk, self._log, self._log_directory_failed))
        if problem is not None and not self.log_directories:
            raise problem
        for path, reason in self.unopened.items():
            self._log.error(
                "log directory offline: its partitions are not served", path=path, reason=reason
            )
        for partition, log in tuple(self.logs.items()):
            if log.moved_away:
                self._settle_move(partition, log)

    def _settle_move(self, partition: TopicPartition, log: Log) -> None:
        """The last process stopped before it deleted the source of a move. A copy that was found
        has no more records; otherwise a directory that cannot be opened may have it."""
        home = self._homes[partition]
        if not self.unopened:
            with suppress(OSError):
                home.logs.unmark_moved(log)
            return
        reason = f"{log.path}: it was moving to a directory that may be offline: {self.lost_on()}"
        home.logs.leave_out(partition, reason)
        del self.logs[partition], self._homes[partition]
        self._closed_cleanly.pop(partition, None)
        self.damaged[partition] = reason
        self._log.error(
            "log not used: it was moving, and the newer copy may be on an offline directory",
            partition=partition,
            path=log.path,
            remedy="start the broker with all its log directories",
        )

    def _take_up(self, log_directory: OpenLogDirectory) -> None:
        self.log_directories.append(log_directory)
        for finding in log_directory.logs.findings:
            self._log.warning("recovery", path=finding.path, what=finding.what, did=finding.action)
        for partition, reason in log_directory.logs.damaged.items():
            self.damaged[partition] = reason
            self._log.error(
                "log cannot be opened: its partition is not served",
                partition=partition,
                reason=reason,
                remedy="look at it with `barnabas log verify`, then repair or remove it",
            )
        for partition, log in tuple(log_directory.logs.logs.items()):
            other = self.logs.get(partition)
            if other is not None:
                # A crash interrupted a move before the source was deleted.
                home = self._homes[partition]
                older = home if _has_more(log, other) else log_directory
                path = older.logs.set_aside(partition)
                self._log.warning("log found twice: the shorter one renamed", path=path)
                if older is log_directory:
                    continue
            self.logs[partition] = log
            self._homes[partition] = log_directory
            if log_directory.logs.clean:
                self._closed_cleanly[partition] = log

    async def stop(self) -> None:
        """No disk work is in progress when this returns."""
        for log_directory in self.log_directories:
            await log_directory.close()

    def close(self) -> None:
        """Record a clean stop, so that the next start need not read the data, if the disk allows
        it."""
        problem: OSError | None = None
        for log_directory in self.log_directories:
            if log_directory.online:
                try:
                    log_directory.logs.close()
                except OSError as error:
                    problem = error
        if problem is not None:
            raise problem

    def forget_gone(self) -> None:
        for log_directory in self.log_directories:
            log_directory.logs.forget_gone()

    # Which log is where

    def home(self, partition: TopicPartition) -> OpenLogDirectory:
        return self._homes[partition]

    def online(self) -> list[OpenLogDirectory]:
        return [log_directory for log_directory in self.log_directories if log_directory.online]

    def was_clean(self, partition: TopicPartition) -> bool:
        """Whether a clean stop left this log. One that has moved since then may have come from a
        directory that was not closed cleanly."""
        log = self.logs.get(partition)
        return log is not None and self._closed_cleanly.get(partition) is log

    def lost_on(self) -> str:
        """Why a partition without a log may be on an offline directory; else empty."""
        return next((f"{path}: {why}" for path, why in self.unopened.items()), "")

    def where_lost(self, partition: TopicPartition) -> str:
        """Why this partition's log may be on an offline directory; else empty."""
        home = self._homes.get(partition)
        if home is not None and not home.online:
            return f"{home.path}: {home.failure}"
        return self.damaged.get(partition) or self.lost_on()

    # Replicas that may lack committed records

    def incomplete(self, partition: TopicPartition) -> IncompleteMark | None:
        """None: nothing is known to be missing. The directory that has the log decides: a mark in
        another one, which was offline when the log caught up or was deleted, is outdated."""
        home = self._homes.get(partition)
        if home is not None and not home.logs.marks_damaged:
            return home.logs.incomplete.get(partition)
        found = (each.logs.incomplete.get(partition) for each in self.log_directories)
        marks = [mark for mark in found if mark is not None]
        if home is not None:
            marks = [mark for mark in marks if mark is not IncompleteMark.GONE]
        return min(marks, default=None)

    def mark_incomplete(self, partitions: Iterable[TopicPartition]) -> None:
        """Their logs are created next, and other replicas may have records. Every log directory
        gets the mark: one that is replaced must not take the mark with it."""
        empty, lost = IncompleteMark.EMPTY, IncompleteMark.LOST
        marks = {
            partition: empty if self.incomplete(partition) in (None, empty) else lost
            for partition in partitions
        }
        for log_directory in self.online() if marks else ():
            log_directory.logs.incomplete.update(marks)
            try:
                log_directory.logs.write_incomplete()
            except OSError as error:
                log_directory.fail(error)

    def copy_mark(self, partition: TopicPartition, to: OpenLogDirectory) -> None:
        """The log moves to that directory, whose own mark may be outdated."""
        mark = self.incomplete(partition)
        to.logs.incomplete.pop(partition, None)
        if mark is not None:
            to.logs.incomplete[partition] = mark

    def complete(self, partition: TopicPartition) -> None:
        """It has all committed records; the next checkpoint removes the mark."""
        for log_directory in self.log_directories:
            log_directory.logs.incomplete.pop(partition, None)

    def create(
        self,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        *,
        complete: bool = True,
    ) -> Log:
        """`complete`: no replica has records; an old mark is of a deleted topic of the same
        name."""
        log_directories = self.online()
        if not log_directories:
            raise Failed(Code.KAFKA_STORAGE_ERROR, "no log directory is online")
        log_directory = min(
            log_directories, key=lambda each: len(each.logs.logs)
        )  # the first, if several are equal
        try:
            log = log_directory.logs.create(partition, topic_id, config)
        except OSError as error:
            log_directory.fail(error)
            raise
        self.logs[partition] = log
        self._homes[partition] = log_directory
        if complete:
            self.complete(partition)
        return log

    def delete(self, partition: TopicPartition) -> None:
        """Rename it; its log directory removes it later. An offline directory keeps it."""
        self._end_moves(partition)
        log_directory = self._homes.get(partition)
        if log_directory is None:
            return
        self.complete(partition)
        if log_directory.online:
            try:
                log_directory.logs.delete(partition)
            except OSError as error:
                log_directory.fail(error)
                raise
        del self._homes[partition]
        self._closed_cleanly.pop(partition, None)
        self.logs.pop(partition, None)

    async def delete_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Their offsets leave the checkpoints before a log of the same name can be created.

        An OSError is the first of those that occurred; logs that could be deleted are deleted.
        """
        names = list(partitions)
        failures: list[OSError] = []

        def attempt(change: Callable[[TopicPartition], None], name: TopicPartition) -> None:
            try:
                change(name)
            except OSError as error:
                failures.append(error)

        for log_directory in self.online():
            logs = log_directory.logs
            moving = [name for name in names if name in logs.moving]
            here = [name for name in names if name in logs.logs]
            if here or moving:
                async with log_directory.renaming:
                    for name in moving:
                        attempt(partial(self._end_move, log_directory), name)
                    for name in here:
                        attempt(self.delete, name)
                await log_directory.checkpoint()
        if failures:
            raise failures[0]
        for name in names:
            self.delete(name)  # those in no available log directory

    def _end_moves(self, partition: TopicPartition) -> None:
        for log_directory in self.online():
            if partition in log_directory.logs.moving:
                self._end_move(log_directory, partition)

    def _end_move(self, log_directory: OpenLogDirectory, partition: TopicPartition) -> None:
        try:
            log_directory.logs.end_move(partition)
        except OSError as error:
            log_directory.fail(error)
            raise

    def set_aside(self, partition: TopicPartition) -> str:
        """Rename a log that belongs to no replica. An OSError leaves everything as it was."""
        self._end_moves(partition)
        log_directory = self._homes[partition]
        try:
            path = log_directory.logs.set_aside(partition)
        except OSError as error:
            log_directory.fail(error)
            raise
        del self._homes[partition]
        self._closed_cleanly.pop(partition, None)
        self.logs.pop(partition, None)
        return path

    def moved(self, partition: TopicPartition, log: Log, to: OpenLogDirectory) -> None:
        """The partition has another log now; the old one no longer belongs to its log directory."""
        self.logs[partition] = log
        self._homes[partition] = to

    def _log_directory_failed(self, log_directory: OpenLogDirectory, reason: str) -> None:
        for partition, log in log_directory.logs.logs.items():
            self.logs.pop(partition, None)
            with suppress(OSError):
                log.release()
        self._log.error(
            "log directory offline: its partitions are not served until a restart",
            path=log_directory.path,
            partitions=len(log_directory.logs.logs),
            reason=reason,
        )
        self._failed(log_directory)


def _has_more(log: Log, other: Log) -> bool:
    """Whether `log` is the complete result of a move, and `other` its source.

    Only the copy is written after the switch. It has a record of a newer epoch only once it has all
    earlier records, and it may be the shorter one then, if it was truncated.
    """
    return _length(log) > _length(other)


def _length(log: Log) -> tuple[int, int]:
    return log.epochs.latest_written(log.start_offset, log.end_offset), log.end_offset
