"""A log directory: the logs in it, its checkpoints, and how it was left.

In: a path and the disk. Out: open logs, and findings about what was not in order.
Always: the clean-stop marker is there only while no process has the directory open.
Always: a deleted log is renamed first, so a crash in the middle leaves nothing half alive.
Not here: whose it is (claim.py), which directory a log is in, disk faults (the broker), when
segments go (retention.py).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from uuid import UUID

from barnabas.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER,
    HIGH_WATERMARK,
    INCOMPLETE,
    LOG_START,
    RECOVERY_POINT,
    CorruptCheckpoint,
    MetaProperties,
    decode_offsets,
    encode_offsets,
)
from barnabas.log.claim import claim
from barnabas.log.config import LogConfig
from barnabas.log.findings import Finding
from barnabas.log.jobs import DELETED_SUFFIX
from barnabas.log.log import Deletion, Log
from barnabas.log.recovery import UNKNOWN, Checkpoints, create_log, open_log
from barnabas.log.warm import WarmSegments
from barnabas.model.errors import Code, Failed, InvalidRequest
from barnabas.model.ids import TopicPartition, check_topic_name
from barnabas.model.ports import Disk

# In the file of incomplete replicas: why each of them may lack records that were committed.
LOST, SHORT, GONE = 0, 1, 2
WARM_SEGMENTS_MAX = 1000  # each may hold three file descriptors
_NAME_LENGTH_MAX = 255
_DELETED = re.compile(r".+\.[0-9a-f]{32}-delete", re.ASCII)
_COPY = re.compile(r".+\.[0-9a-f]{32}-future", re.ASCII)
_PARTITION = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.ASCII)


class Doomed(NamedTuple):
    """A file that nobody needs any more, and how long it stays."""

    path: str
    delay_ms: int


class CheckpointWork:
    """The checkpoint files as they should be now; `run` may go in any thread.

    Files below the start of a log get their last name here too, once that start is on disk.
    """

    __slots__ = ("_disk", "_path", "deletions", "doomed", "files")

    def __init__(
        self,
        disk: Disk,
        path: str,
        files: dict[str, bytes],
        doomed: list[Doomed],
        deletions: list[Deletion],
    ) -> None:
        self._disk = disk
        self._path = path
        self.files = files
        self.doomed = doomed
        self.deletions = deletions

    def run(self) -> None:
        """All of it, or an OSError: then `LogDirectory.not_written` has it made again."""
        for name, data in self.files.items():
            self._disk.replace_file(f"{self._path}/{name}", data)
        for path, _ in self.doomed:
            with suppress(FileNotFoundError):  # a run before this one came so far
                self._disk.rename(path, path + DELETED_SUFFIX)


class LogDirectory:
    """Open it once per process; close it to leave the marker of a clean stop."""

    def __init__(
        self, disk: Disk, path: str, meta: MetaProperties, warm: WarmSegments, clean: bool
    ) -> None:
        self._disk = disk
        self._warm = warm
        self._written: dict[str, bytes] = {}
        self.path = path
        self.meta = meta
        self.clean = clean  # how the last process left it
        self.logs: dict[TopicPartition, Log] = {}
        self.damaged: dict[TopicPartition, str] = {}  # logs that cannot be opened, and why
        self._damaged_offsets: dict[TopicPartition, Checkpoints] = {}  # as they were found
        self.findings: list[Finding] = []
        self.deleted: list[str] = []  # renamed directories whose removal is due
        self._rolled: list[Log] = []
        self._doomed: list[Doomed] = []  # files of a checkpoint that failed
        self.deletions: list[Deletion] = []  # segments that went since somebody took them
        self._removals: list[Doomed] = []  # files under their last name, not timed yet
        self._timed: list[tuple[int, str]] = []  # when each of those is removed
        self._named: set[TopicPartition] = set()  # in the checkpoints as they were found
        # Copies about to become logs, and the sources of moved logs until these are durable: a
        # start after a crash may open them, and needs their offsets.
        self.moving: dict[TopicPartition, Log] = {}
        self.incomplete: dict[TopicPartition, int] = {}
        """LOST: the log began again and has not caught up since. SHORT: it was found to end before
        its high watermark. GONE: a checkpoint names it, and it is not in this directory."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        meta: MetaProperties,
        config_for: Callable[[str], LogConfig],
        warm_segments_max: int = WARM_SEGMENTS_MAX,
    ) -> "LogDirectory":
        """Every log in `path`; the directory is made and marked as ours if it is new."""
        _make_durable_directory(disk, path)
        names = disk.list(path)
        findings: list[Finding] = []
        meta = claim(disk, path, meta)
        clean = CLEAN_SHUTDOWN in names
        directory = cls(disk, path, meta, WarmSegments(warm_segments_max), clean)
        directory.findings = findings
        if clean:
            disk.remove(f"{path}/{CLEAN_SHUTDOWN}")
            disk.sync_directory(path)
        points = directory._read_offsets(RECOVERY_POINT, names)
        starts = directory._read_offsets(LOG_START, names)
        watermarks = directory._read_offsets(HIGH_WATERMARK, names)
        cleaned = directory._read_offsets(CLEANER, names)
        # A log is compacted only below a recovery point that is on disk: one that the file does not
        # name is new. Without the file nobody knows.
        all_named = RECOVERY_POINT in directory._written
        directory._named = {*points, *starts, *watermarks, *cleaned}
        configs: dict[str, LogConfig] = {}
        for name in names:
            if _DELETED.fullmatch(name):
                directory.deleted.append(f"{path}/{name}")
                continue
            if _COPY.fullmatch(name):
                what = "a copy on its way from another directory, cut off"
                findings.append(Finding(f"{path}/{name}", what, "removed: the log is there"))
                directory.deleted.append(f"{path}/{name}")
                continue
            partition = _parse_name(name)
            if partition is None:
                continue
            config = configs.get(partition.topic)
            if config is None:
                config = configs[partition.topic] = config_for(partition.topic)
            checkpoints = Checkpoints(
                points.get(partition, UNKNOWN),
                starts.get(partition, 0),
                watermarks.get(partition, 0),
                cleaned.get(partition, 0),
                new=all_named and partition not in points,
            )
            try:
                log = open_log(
                    disk,
                    f"{path}/{name}",
                    partition,
                    config,
                    directory._warm,
                    clean=clean,
                    checkpoints=checkpoints,
                )
            except NotADirectoryError:
                what = "named like a partition, but not a directory"
                findings.append(Finding(f"{path}/{name}", what, "left alone"))
                continue
            except OSError:
                raise  # the disk's, or the process's: not of this log alone
            except Exception as error:  # whatever its files are like, the others can be served
                directory.damaged[partition] = f"{path}/{name}: {error!r}"
                directory._damaged_offsets[partition] = checkpoints
                continue
            log.on_roll = partial(directory._rolled.append, log)
            directory.logs[partition] = log
            findings += log.findings
        directory.incomplete = directory._read_offsets(INCOMPLETE, names)
        directory._find_incomplete(points.keys() | watermarks.keys(), watermarks)
        return directory

    def _find_incomplete(
        self, known: Iterable[TopicPartition], watermarks: Mapping[TopicPartition, int]
    ) -> None:
        """On disk before the checkpoints that prove it are written again."""
        before = dict(self.incomplete)
        for partition in sorted(known):
            log = self.logs.get(partition)
            if log is None:
                self.incomplete.setdefault(partition, GONE)
            elif log.end_offset < watermarks.get(partition, 0):
                self.incomplete.setdefault(partition, SHORT)
        if self.incomplete != before:
            self.write_incomplete()

    def write_incomplete(self) -> None:
        """Now, and synced: a crash must not make a replica seem complete."""
        data = encode_offsets(self.incomplete.items())
        self._written.pop(INCOMPLETE, None)
        self._disk.replace_file(f"{self.path}/{INCOMPLETE}", data)
        self._written[INCOMPLETE] = data

    def create(self, partition: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """A new, empty log; an OSError leaves nothing of it."""
        check_topic_name(partition.topic)
        if partition in self.logs:
            raise InvalidRequest(Code.TOPIC_ALREADY_EXISTS, f"{self.path} holds {partition}")
        path = f"{self.path}/{partition}"
        try:
            log = create_log(self._disk, path, partition, topic_id, config, self._warm)
        except FileExistsError:
            raise Failed(
                Code.KAFKA_STORAGE_ERROR, f"{path} is not a directory; move it elsewhere"
            ) from None
        except OSError:
            with suppress(OSError):
                self._disk.remove_tree(path)
            raise
        log.on_roll = partial(self._rolled.append, log)
        self.logs[partition] = log
        return log

    def create_copy(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig, start_offset: int
    ) -> Log:
        """An empty log to fill, which is not the partition's yet: `adopt` makes it so."""
        path = self._unused_path(partition, topic_id, "future")
        copy = create_log(self._disk, path, partition, topic_id, config, self._warm)
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
        copy.on_roll = partial(self._rolled.append, copy)
        self._rolled.append(copy)  # the copy may have sealed segments that are not synced
        self.moving.pop(source.partition, None)
        self.logs[source.partition] = copy

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
        """Rename the log out of the way, for whoever takes `deleted` to remove."""
        doomed = self._rename(self.logs[partition], "delete")
        del self.logs[partition]
        self.deleted.append(doomed)
        return doomed

    def set_aside(self, partition: TopicPartition) -> str:
        """Rename a log that nobody owns; it is neither opened nor removed again."""
        path = self._rename(self.logs[partition], "stray")
        del self.logs[partition]
        return path

    def _rename(self, log: Log, state: str) -> str:
        """An OSError leaves everything as it was."""
        path = self._unused_path(log.partition, log.topic_id, state)
        log.release()
        self._disk.rename(log.path, path)
        self._rolled[:] = [other for other in self._rolled if other is not log]
        inside = log.path + "/"  # whatever was due there must not meet the next log of this name
        self._doomed = [each for each in self._doomed if not each.path.startswith(inside)]
        self._removals = [each for each in self._removals if not each.path.startswith(inside)]
        self._timed = [each for each in self._timed if not each[1].startswith(inside)]
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
        self._warm.cool_half()

    def pending_checkpoint(self) -> CheckpointWork | None:
        """The checkpoint files that changed; None if none did."""
        logs = ({**self.moving, **self.logs} if self.moving else self.logs).items()
        damaged = self._damaged_offsets.items()  # kept for a repair
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
        if self.incomplete or INCOMPLETE in self._written:
            contents[INCOMPLETE] = encode_offsets(self.incomplete.items())
        if CLEANER not in self._written and not cleaned:
            del contents[CLEANER]
        changed = {name: data for name, data in contents.items() if self._written.get(name) != data}
        doomed, self._doomed = self._doomed, []
        deletions: list[Deletion] = []
        for log in self.logs.values():
            if paths := log.take_doomed():
                delay_ms = log.config.file_delete_delay_ms
                doomed += [Doomed(path, delay_ms) for path in paths]
                deletions += log.take_deletions()
        if not changed and not doomed:
            return None
        self._written.update(changed)
        return CheckpointWork(self._disk, self.path, changed, doomed, deletions)

    def written(self, work: CheckpointWork) -> None:
        """Its run is done: the files of segments that went wait for their end."""
        self._removals += (
            Doomed(path + DELETED_SUFFIX, delay_ms) for path, delay_ms in work.doomed
        )
        self.deletions += work.deletions

    def doom(self, log: Log, paths: list[str]) -> None:
        """These have their last name already, and stay as long as the log's configuration says."""
        self._removals += (Doomed(path, log.config.file_delete_delay_ms) for path in paths)

    def take_removals(self, now_ms: int) -> list[str]:
        """The paths of files whose time is up; `now_ms` only goes forward."""
        self._timed += ((now_ms + delay_ms, path) for path, delay_ms in self._removals)
        self._removals.clear()
        due = [path for at_ms, path in self._timed if at_ms <= now_ms]
        if due:
            self._timed = [each for each in self._timed if each[0] > now_ms]
        return due

    def take_deletions(self) -> list[Deletion]:
        deletions, self.deletions = self.deletions, []
        return deletions

    def not_written(self, work: CheckpointWork) -> None:
        """Its run failed: nobody knows how far it came, so the next one does all of it."""
        for name in work.files:
            self._written.pop(name, None)
        self._doomed += work.doomed
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
        for _, path in self._timed:
            self._disk.remove(path)
        for path, _ in self._removals:
            self._disk.remove(path)
        marker = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        self._disk.replace_file(f"{self.path}/{CLEAN_SHUTDOWN}", marker.encode())
        self.logs.clear()

    def _read_offsets(self, name: str, names: list[str]) -> dict[TopicPartition, int]:
        if name not in names:
            return {}
        path = f"{self.path}/{name}"
        data = self._disk.read_file(path)
        try:
            offsets = decode_offsets(data)
        except CorruptCheckpoint as error:
            self.findings.append(Finding(path, str(error), "ignored"))
            return {}
        self._written[name] = data
        return offsets


def _make_durable_directory(disk: Disk, path: str) -> None:
    """With its parents, all of which survive a power loss."""
    parents: list[str] = []
    at = path
    while at.strip("/") and not disk.exists(at):
        at = at.rpartition("/")[0]
        parents.append(at or "/")
    disk.make_directory(path)
    for parent in parents:
        disk.sync_directory(parent)


def _parse_name(name: str) -> TopicPartition | None:
    match = _PARTITION.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None
