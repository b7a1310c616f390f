"""A log directory: the logs in it, and its checkpoints.

In: logs to make, move, rename and delete. Out: work for the thread of the directory (checkpoints,
logs that rolled, files to delete).
Always: the marker of a clean stop is there only while no process has the directory open.
Always: a deleted log is renamed first, so that a crash cannot leave a part of it in use.
Not here: opening the directory (opening.py), whose it is (claim.py), which directory a log
is in and disk faults (the broker), when segments go (log/segments/retention.py).
"""

from contextlib import suppress
from enum import IntEnum
from functools import partial
from uuid import UUID

from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoint_files import CheckpointFiles, CheckpointWork
from barnabas.log.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER,
    HIGH_WATERMARK,
    INCOMPLETE,
    LOG_START,
    RECOVERY_POINT,
    CheckpointedOffsets,
    MetaProperties,
    encode_offsets,
)
from barnabas.log.directory.creation import create_log
from barnabas.log.log import Log, SegmentDeletion
from barnabas.log.names import MOVED_AWAY
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments.file_deletion import FileDeletions, PendingFileDeletion
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.model.errors import Code, Failed, InvalidRequest
from barnabas.model.ids import TopicPartition, check_topic_name
from barnabas.model.ports import Disk

_NAME_LENGTH_MAX = 255


class IncompleteMark(IntEnum):
    """Why a replica may lack committed records. A smaller number is the stronger reason."""

    LOST = 0  # the log started empty again and has not caught up since
    SHORT = 1  # the log was found to end before its high watermark
    GONE = 2  # a checkpoint names the log, and it is not in this directory
    EMPTY = 3  # the log was created without a trace of an earlier one; with records, as LOST

    @classmethod
    def _missing_(cls, value: object) -> "IncompleteMark":
        """A number that only a later version knows."""
        return cls.LOST


class LogDirectory:
    """Open it once per process; close it to leave the marker of a clean stop."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        meta: MetaProperties,
        open_segments: OpenSegments,
        clean: bool,
        files: CheckpointFiles,
        named: set[TopicPartition],
    ) -> None:
        self._disk = disk
        self._open_segments = open_segments
        self._files = files
        self.path = path
        self.meta = meta
        self.clean = clean  # how the last process left it
        self.logs: dict[TopicPartition, Log] = {}
        self.damaged: dict[TopicPartition, str] = {}  # logs that cannot be opened, and why
        self.damaged_offsets: dict[TopicPartition, CheckpointedOffsets] = {}  # as they were found
        self.findings: list[RecoveryFinding] = []
        self.deleted: list[str] = []  # renamed directories to remove
        self._rolled: list[Log] = []
        self._deletions = FileDeletions()
        self.deletions: list[SegmentDeletion] = []  # not yet taken by `take_deletions`
        self._named = named  # in the checkpoints as they were found
        # Copies about to become logs, and the sources of moved logs until these are durable: a
        # start after a crash may open them, and needs their offsets.
        self.moving: dict[TopicPartition, Log] = {}
        self.incomplete: dict[TopicPartition, IncompleteMark] = {}
        self.marks_damaged = False  # the file of `incomplete` could not be read

    def write_incomplete(self) -> None:
        """Now, and synced: a crash must not make a replica seem complete."""
        data = encode_offsets(self.incomplete.items())
        self._files.write(INCOMPLETE, data)

    def create(self, partition: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """A new, empty log; an OSError leaves nothing of it."""
        check_topic_name(partition.topic)
        if partition in self.logs:
            raise InvalidRequest(Code.TOPIC_ALREADY_EXISTS, f"{self.path} holds {partition}")
        path = f"{self.path}/{partition}"
        try:
            log = create_log(self._disk, path, partition, topic_id, config, self._open_segments)
        except FileExistsError:
            raise Failed(
                Code.KAFKA_STORAGE_ERROR, f"{path} is not a directory; move it elsewhere"
            ) from None
        except OSError:
            with suppress(OSError):
                self._disk.remove_tree(path)
            raise
        self.add(log)
        return log

    def add(self, log: Log) -> None:
        """It is the log of its partition from now on."""
        log.on_roll = partial(self._rolled.append, log)
        self.logs[log.partition] = log

    def create_copy(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig, start_offset: int
    ) -> Log:
        """An empty log to fill, which is not the partition's yet: `adopt` makes it so."""
        path = self._unused_path(partition, topic_id, "future")
        copy = create_log(self._disk, path, partition, topic_id, config, self._open_segments)
        if start_offset:
            copy.start_at(start_offset)
        return copy

    def drop_copy(self, copy: Log) -> None:
        if self.moving.get(copy.partition) is copy:
            del self.moving[copy.partition]
        copy.release()
        self.deleted.append(copy.path)

    def announce(self, copy: Log) -> None:
        """The checkpoints name the copy from now on; write them before `adopt`."""
        self.moving[copy.partition] = copy

    def adopt(self, copy: Log, source: Log) -> None:
        """The copy becomes the partition's log; it has all records of the source.

        What of it is not synced yet stays so: flush it before the source is removed.
        """
        copy.skip_to(source.end_offset)
        path = f"{self.path}/{source.partition}"
        self._disk.rename(copy.path, path)
        copy.take_place_of(source, path)
        self.add(copy)
        self._rolled.append(copy)  # the copy may have sealed segments that are not synced
        self.moving.pop(source.partition, None)

    def mark_moved(self, source: Log) -> None:
        """Now, and synced, before `adopt`: from then on only the copy gets records. A start that
        cannot open its directory must not take the source for the log."""
        self._disk.replace_file(f"{source.path}/{MOVED_AWAY}", b"")

    def unmark_moved(self, log: Log) -> None:
        log.moved_away = False
        self._disk.remove(f"{log.path}/{MOVED_AWAY}")

    def leave_out(self, partition: TopicPartition, reason: str) -> None:
        """This log must not be used; its files and its offsets stay as they are."""
        log = self.logs.pop(partition)
        log.release()
        self.damaged[partition] = reason
        self.damaged_offsets[partition] = CheckpointedOffsets(
            log.recovery_point, log.start_offset, log.high_watermark, log.cleaned_to
        )

    def retire(self, source: Log) -> None:
        """The partition has another log now; this one stays on disk until `end_move`."""
        del self.logs[source.partition]
        self._rolled[:] = [other for other in self._rolled if other is not source]
        self.moving[source.partition] = source

    def end_move(self, partition: TopicPartition) -> None:
        """Forget a copy that was announced, or delete the source of a log that has moved away."""
        log = self.moving.get(partition)
        if log is not None and log.path == f"{self.path}/{partition}":
            self.deleted.append(self._rename(log, "delete"))
        self.moving.pop(partition, None)

    def delete(self, partition: TopicPartition) -> str:
        """Rename the log out of the way, into `deleted`: the broker removes it later."""
        path = self._rename(self.logs[partition], "delete")
        del self.logs[partition]
        self.deleted.append(path)
        return path

    def set_aside(self, partition: TopicPartition) -> str:
        """Rename a log that belongs to no replica; it is neither opened nor removed again."""
        path = self._rename(self.logs[partition], "stray")
        del self.logs[partition]
        return path

    def _rename(self, log: Log, state: str) -> str:
        """An OSError leaves everything as it was."""
        path = self._unused_path(log.partition, log.topic_id, state)
        log.release()
        self._disk.rename(log.path, path)
        self._rolled[:] = [other for other in self._rolled if other is not log]
        self._deletions.forget_directory(log.path)
        return path

    def _unused_path(self, partition: TopicPartition, topic_id: UUID, state: str) -> str:
        """One that no directory has, not even one whose removal is due."""
        number = topic_id.int
        while True:
            suffix = f".{number:032x}-{state}"
            stem = str(partition)[: _NAME_LENGTH_MAX - len(suffix)]
            path = f"{self.path}/{stem}{suffix}"
            if not self._disk.exists(path):
                return path
            number = (number + 1) % (1 << 128)

    def rolled(self, log: Log) -> None:
        """It has sealed segments to flush; `take_rolled` names it."""
        self._rolled.append(log)

    def take_rolled(self) -> list[Log]:
        """Logs that rolled since the last call: each has sealed segments to flush."""
        if not self._rolled:
            return []
        rolled = list(dict.fromkeys(self._rolled))
        self._rolled.clear()
        return rolled

    def close_cooled_files(self) -> None:
        """The process is out of descriptors: close the files of segments opened first."""
        self._open_segments.cool_half()

    def pending_checkpoint(self) -> CheckpointWork | None:
        """The checkpoint files that changed; None if none did."""
        logs = ({**self.moving, **self.logs} if self.moving else self.logs).items()
        damaged = self.damaged_offsets.items()  # kept for a repair
        points = [(tp, log.recovery_point) for tp, log in logs]
        points += [(tp, each.recovery_point) for tp, each in damaged if each.recovery_point >= 0]
        starts = [(tp, log.start_offset) for tp, log in logs if log.start_offset]
        starts += [(tp, each.start_offset) for tp, each in damaged if each.start_offset]
        watermarks = [(tp, log.high_watermark) for tp, log in logs]
        watermarks += [(tp, each.high_watermark) for tp, each in damaged]
        cleaned = [(tp, log.cleaned_to) for tp, log in logs if log.cleaned_to]
        cleaned += [(tp, each.cleaned_to) for tp, each in damaged if each.cleaned_to]
        contents = {
            RECOVERY_POINT: encode_offsets(points),
            LOG_START: encode_offsets(starts),
            HIGH_WATERMARK: encode_offsets(watermarks),
            CLEANER: encode_offsets(cleaned),
        }
        if self.incomplete or INCOMPLETE in self._files:
            contents[INCOMPLETE] = encode_offsets(self.incomplete.items())
        if CLEANER not in self._files and not cleaned:
            del contents[CLEANER]
        files_to_delete = self._deletions.take_not_renamed()
        deletions: list[SegmentDeletion] = []
        for log in self.logs.values():
            if paths := log.take_files_to_delete():
                delay_ms = log.config.file_delete_delay_ms
                files_to_delete += (PendingFileDeletion(path, delay_ms) for path in paths)
                deletions += log.take_deletions()
        changed = self._files.take_changed(contents)
        if not changed and not files_to_delete:
            return None
        return CheckpointWork(self._disk, self.path, changed, files_to_delete, deletions)

    def written(self, work: CheckpointWork) -> None:
        """Its run is done: the files of deleted segments wait for file.delete.delay.ms."""
        self._deletions.renamed(work.files_to_delete)
        self.deletions += work.deletions

    def delete_later(self, log: Log, paths: list[str]) -> None:
        """These files are called `.deleted` already; they stay for file.delete.delay.ms."""
        self._deletions.add(paths, log.config.file_delete_delay_ms)

    def take_removals(self, now_ms: int) -> list[str]:
        """The files to delete now; `now_ms` only goes forward."""
        return self._deletions.take_due(now_ms)

    def take_deletions(self) -> list[SegmentDeletion]:
        deletions, self.deletions = self.deletions, []
        return deletions

    def not_written(self, work: CheckpointWork) -> None:
        """Its run failed, and may have done a part: the next one does all of it."""
        self._files.not_written(work.files)
        self._deletions.rename_again(work.files_to_delete)
        self.deletions += work.deletions

    def forget_gone(self) -> None:
        """Offsets of a log that is gone must not meet the next log of its name."""
        if not self._named <= self.logs.keys() | self.damaged.keys():
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks now."""
        work = self.pending_checkpoint()
        if work is None:
            return
        try:
            work.run()
        except OSError:
            self.not_written(work)
            raise
        self.written(work)

    def close(self, broker_epoch: int = -1) -> None:
        """Flush and close every log, then say that the stop was clean."""
        for log in self.logs.values():
            log.close()
        self.checkpoint()
        for path in self._deletions.all_renamed():
            self._disk.remove(path)
        marker = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        self._disk.replace_file(f"{self.path}/{CLEAN_SHUTDOWN}", marker.encode())
        self.logs.clear()
