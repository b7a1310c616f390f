"""Opens a log directory: every log in it, as the last process left it.

In: a path, the disk, and the configuration of each topic. Out: a LogDirectory, with findings about
everything that was not in order.
Always: one log that cannot be opened does not keep the others from being served.
Always: the list of incomplete replicas is on disk before the checkpoints that prove it are written
again.
Not here: one log (log/recovery/log_recovery.py), whose directory it is (claim.py).
"""

import re
from collections.abc import Callable, Iterable, Mapping

from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoint_files import CheckpointFiles
from barnabas.log.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER,
    HIGH_WATERMARK,
    INCOMPLETE,
    LOG_START,
    RECOVERY_POINT,
    UNKNOWN,
    CheckpointedOffsets,
    MetaProperties,
)
from barnabas.log.directory.claim import claim
from barnabas.log.directory.directory import IncompleteMark, LogDirectory
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.recovery.log_recovery import open_log
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk

OPEN_SEGMENTS_MAX = 1000  # each may hold three file descriptors
_DELETED = re.compile(r".+\.[0-9a-f]{32}-delete", re.ASCII)
_COPY = re.compile(r".+\.[0-9a-f]{32}-future", re.ASCII)
_PARTITION = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.ASCII)


def open_log_directory(
    disk: Disk,
    path: str,
    *,
    meta: MetaProperties,
    config_for: Callable[[str], LogConfig],
    open_segments_max: int = OPEN_SEGMENTS_MAX,
) -> LogDirectory:
    """The directory is made, and marked as this broker's, if it is new."""
    _make_durable_directory(disk, path)
    names = disk.list(path)
    meta = claim(disk, path, meta)
    clean = CLEAN_SHUTDOWN in names
    if clean:
        disk.remove(f"{path}/{CLEAN_SHUTDOWN}")
        disk.sync_directory(path)
    files, findings = CheckpointFiles(disk, path), list[RecoveryFinding]()
    points = files.read_offsets(RECOVERY_POINT, names, findings)
    starts = files.read_offsets(LOG_START, names, findings)
    watermarks = files.read_offsets(HIGH_WATERMARK, names, findings)
    cleaned = files.read_offsets(CLEANER, names, findings)
    # A log is compacted only below a recovery point that is on disk: one that the file does not
    # name is new. Without the file that is unknown.
    all_named = RECOVERY_POINT in files
    named = {*points, *starts, *watermarks, *cleaned}
    open_segments = OpenSegments(open_segments_max)
    directory = LogDirectory(disk, path, meta, open_segments, clean, files, named)
    directory.findings = findings
    configs: dict[str, LogConfig] = {}
    for name in names:
        partition = _partition_of(directory, name)
        if partition is None:
            continue
        config = configs.get(partition.topic)
        if config is None:
            config = configs[partition.topic] = config_for(partition.topic)
        checkpoints = CheckpointedOffsets(
            points.get(partition, UNKNOWN),
            starts.get(partition, 0),
            watermarks.get(partition, 0),
            cleaned.get(partition, 0),
            new=all_named and partition not in points,
        )
        _open_into(directory, disk, partition, config, open_segments, checkpoints)
    marks = files.read_offsets(INCOMPLETE, names, findings)
    directory.incomplete = {name: IncompleteMark(mark) for name, mark in marks.items()}
    directory.marks_damaged = INCOMPLETE in names and INCOMPLETE not in files
    # A log of which nothing was synced or committed may go with the power, and nothing with it.
    written = {name for name, offset in (*points.items(), *watermarks.items()) if offset > 0}
    _find_incomplete(directory, written, watermarks)
    return directory


def _partition_of(directory: LogDirectory, name: str) -> TopicPartition | None:
    """The partition whose log it is; None for anything else, some of which is to be removed."""
    path = f"{directory.path}/{name}"
    if _DELETED.fullmatch(name):
        directory.deleted.append(path)
        return None
    if _COPY.fullmatch(name):
        what = "an incomplete copy of a log from another directory"
        directory.findings.append(RecoveryFinding(path, what, "removed: the log is there"))
        directory.deleted.append(path)
        return None
    match = _PARTITION.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def _open_into(
    directory: LogDirectory,
    disk: Disk,
    partition: TopicPartition,
    config: LogConfig,
    open_segments: OpenSegments,
    checkpoints: CheckpointedOffsets,
) -> None:
    path, clean = f"{directory.path}/{partition}", directory.clean
    try:
        log = open_log(
            disk, path, partition, config, open_segments, clean=clean, checkpoints=checkpoints
        )
    except NotADirectoryError:
        what = "named like a partition, but not a directory"
        directory.findings.append(RecoveryFinding(path, what, "left alone"))
    except OSError:
        raise  # of the disk or the process, not of this log alone
    except Exception as error:  # whatever its files are like, the others can be served
        directory.damaged[partition] = f"{path}: {error!r}"
        directory.damaged_offsets[partition] = checkpoints
    else:
        directory.add(log)
        directory.findings += log.findings


def _find_incomplete(
    directory: LogDirectory,
    known: Iterable[TopicPartition],
    watermarks: Mapping[TopicPartition, int],
) -> None:
    before = dict(directory.incomplete)
    for partition in sorted(known):
        log = directory.logs.get(partition)
        mark = directory.incomplete.get(partition)
        if log is None:
            if mark in (None, IncompleteMark.EMPTY):
                directory.incomplete[partition] = IncompleteMark.GONE
        elif log.end_offset < watermarks.get(partition, 0):
            if mark is None:
                directory.incomplete[partition] = IncompleteMark.SHORT
            elif mark is IncompleteMark.EMPTY:
                directory.incomplete[partition] = IncompleteMark.LOST
    if directory.incomplete != before:
        directory.write_incomplete()


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
