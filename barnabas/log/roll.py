"""Rolls a log to its next segment where Kafka would.

In: the size, offset and timestamp of the batch to append. Out: the segment for it.
Always: a roll that fails leaves the old segment active and no file of the next one.
Always: the producers are captured at the roll, and written to their snapshot later (Log.flush, or
the thread of the log directory): encoding 10,000 of them would stop the event loop for 8 ms.
"""

from typing import TYPE_CHECKING

from barnabas.log.segments.index import RELATIVE_OFFSET_MAX
from barnabas.log.segments.segment import Segment
from barnabas.model.errors import Code, Failed
from barnabas.wire.checksum import crc32c

if TYPE_CHECKING:
    from barnabas.log.log import Log


def segment_for(
    log: "Log", size: int, last_offset: int, max_timestamp: int, wall_ms: int
) -> Segment:
    """The active segment, ready for appends, or a new one."""
    if log.write_failure:
        raise Failed(Code.KAFKA_STORAGE_ERROR, log.write_failure)
    config, segment = log.config, log.active
    if not segment.entries_left:
        if not segment.jitter_ms:
            segment.jitter_ms = _jitter(log, segment.base_offset)
        segment.prepare(config, wall_ms)
    first = segment.first_timestamp
    waited = max_timestamp - first if first >= 0 else wall_ms - segment.created_ms
    if segment.size and (
        segment.entries_left < 1
        or segment.size + size > config.segment_bytes
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        or waited > config.segment_ms - segment.jitter_ms
    ):
        return log.roll(wall_ms)
    return segment


def roll(log: "Log", wall_ms: int) -> Segment:
    old = log.active
    base = log.end_offset
    assert old.size, "an empty segment is never rolled"
    interval = log.config.index_interval_bytes
    segment = Segment(log.disk, log.path, base, 0, log.open_segments, log.findings, interval)
    segment.jitter_ms = _jitter(log, base)
    try:
        old.seal()
        old.close()
        log.snapshots.capture(log.producers, base)
        segment.create_files()
        segment.prepare(log.config, wall_ms)
    except OSError:
        old.close()  # the next append prepares it again
        _undo(log, segment)
        raise
    log.segments.append(segment)
    log.active = segment
    log.reader.rolled(segment)
    log.durability.directory_changed()
    if log.on_roll is not None:
        log.on_roll()
    return segment


def _undo(log: "Log", segment: Segment) -> None:
    """The next start would take an empty file that is left for the end of the log."""
    log.durability.directory_changed()
    try:
        segment.remove_files()
        log.snapshots.remove(segment.base_offset)
    except OSError as error:
        log.write_failure = f"{segment.path}: cannot undo a failed roll: {error}"


def new_segment(log: "Log", base_offset: int) -> Segment:
    """An empty segment with its files, not yet in the log."""
    interval = log.config.index_interval_bytes
    return Segment.create(
        log.disk, log.path, base_offset, log.open_segments, log.findings, interval
    )


def _jitter(log: "Log", base_offset: int) -> int:
    """Spread over partitions and segments, and the same in every run."""
    limit = min(log.config.segment_jitter_ms, log.config.segment_ms)
    return crc32c(f"{log.partition} {base_offset}".encode()) % limit if limit > 0 else 0
