"""Deletes the oldest segments of a log, and records why.

In: the new start of the log, wall time. Out: files to delete once the new start is on disk.
Always: the new start is on disk before the first file goes. A log without its first files would
otherwise look like one that a crash has damaged.
Always: the producer snapshot at the new first segment is on disk too: it knows the producers whose
records go.
Not here: which segments are too old or too many (retention.py), deleting the files (the broker).
"""

from typing import TYPE_CHECKING, NamedTuple

from barnabas.log.segments.retention import BELOW_START, expired, wait_for_table
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.log.segments.segment import Segment


class SegmentDeletion(NamedTuple):
    """A deleted segment, and why it was deleted."""

    partition: TopicPartition
    base_offset: int
    next_offset: int
    size: int
    cause: str


def apply_retention(log: "Log", wall_ms: int) -> int:
    """A log always has a segment: if all are to go, the active one is rolled first."""
    segments, watermark = log.segments, log.high_watermark
    causes = expired(segments, log.start_offset, watermark, log.config, log.disk, wall_ms)
    log.waiting_bytes = log.lost_segments = 0
    if log.config.table_offsets is not None and causes:
        reached = log.config.table_offsets.get(log.partition.partition, 0)
        found = wait_for_table(segments, causes, reached, log.config.waiting_bytes_max)
        causes, log.waiting_bytes, log.lost_segments = found
    if not causes:
        return 0
    if len(causes) == len(segments):
        try:
            log.roll(wall_ms)
        except OSError:  # no room for a new segment: delete the others
            causes.pop()
    for segment, cause in zip(segments, causes, strict=False):
        log.deletion_causes[segment.base_offset] = cause
    _raise_start(log, segments[len(causes)].base_offset)
    return len(causes)


def delete_before(log: "Log", offset: int) -> None:
    if offset > log.high_watermark or offset < 0:
        raise InvalidRequest(
            Code.OFFSET_OUT_OF_RANGE,
            f"{log.partition}: cannot delete before {offset}, the high watermark is "
            f"{log.high_watermark}",
        )
    _raise_start(log, offset)


def _raise_start(log: "Log", offset: int) -> None:
    if offset <= log.start_offset:
        return
    log.start_offset = offset
    log.epochs.truncate_start(offset)
    log.reader.forget()
    drop_segments_below_start(log)


def drop_segments_below_start(log: "Log") -> None:
    """Only those whose records a recovery would no longer need."""
    segments = log.segments
    limit = min(log.start_offset, log.recovery_point, log.snapshots.durable_below - 1)
    if len(segments) < 2 or segments[1].base_offset > limit:
        return
    while len(segments) > 1 and segments[1].base_offset <= limit:
        segment = segments.pop(0)
        log.size -= segment.size
        segment.close()
        log.files_to_delete += segment.paths
        if segment.has_aborted():
            log.files_to_delete.append(segment.aborted_path)
        _record_deletion(log, segment)
    log.files_to_delete += log.snapshots.forget_below(segments[0].base_offset)


def _record_deletion(log: "Log", segment: "Segment") -> None:
    cause = log.deletion_causes.pop(segment.base_offset, BELOW_START)
    log.deletions.append(
        SegmentDeletion(
            log.partition, segment.base_offset, segment.next_offset, segment.size, cause
        )
    )
