"""Decides which segments of a log are too old or too many.

In: the segments of a log, its limits, wall time. Out: how many of the first go, and why each.
Always: whole segments, from the front, nothing above the high watermark. Where a table is made of
the records, none that the table does not have, unless too many bytes wait for it.
Always: a timestamp in the future does not keep a segment: its age counts from its write time, or,
if the clock was set back, from when the broker noticed.
Not here: deleting them (deletion.py), dead records within a segment (log/compaction/compaction.py).
"""

from typing import NamedTuple

from barnabas.log.config import LogConfig
from barnabas.log.segments.segment import Segment
from barnabas.model.ports import Disk

BELOW_START = "below the log start"


class Expired(NamedTuple):
    """Why each of the first segments goes, and the bytes of those after them that would go, too,
    if they were in the table. `lost`: how many of the former are not in the table.
    """

    causes: list[str]
    waiting_bytes: int = 0
    lost: int = 0


def wait_for_table(
    segments: list[Segment], causes: list[str], table_offset: int, bytes_max: int
) -> Expired:
    """`causes`: of the segments that would go if no table was made of them."""
    size = sum(segment.size for segment in segments)
    found: list[str] = []
    lost = 0
    for number, (segment, cause) in enumerate(zip(segments, causes, strict=False)):
        if segment.next_offset > table_offset and cause != BELOW_START:
            if size <= bytes_max:
                waiting = sum(each.size for each in segments[number : len(causes)])
                return Expired(found, waiting, lost)
            cause = (
                f"{cause}, and lake.retention.wait.bytes = {bytes_max}: the log has {size}. Its"
                f" records from {max(table_offset, segment.base_offset)} on are NOT in the table"
            )
            lost += 1
        found.append(cause)
        size -= segment.size
    return Expired(found, 0, lost)


def expired(
    segments: list[Segment],
    start_offset: int,
    high_watermark: int,
    config: LogConfig,
    disk: Disk,
    wall_ms: int,
) -> list[str]:
    """Why each of the first segments goes; the list is as long as there are such."""
    if not config.deletes:
        return []
    by_size = _by_size(segments, start_offset, high_watermark, config.retention_bytes)
    by_age = _by_age(segments, len(by_size), high_watermark, config.retention_ms, disk, wall_ms)
    return by_size + by_age


def _by_size(segments: list[Segment], start: int, high_watermark: int, limit: int) -> list[str]:
    if limit < 0:
        return []
    size = sum(segment.size for segment in segments)
    causes = []
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        if not last and segments[number + 1].base_offset <= start:
            size -= segment.size  # dead already
            causes.append(BELOW_START)
            continue
        over = size - limit
        if over < segment.size or not _may_go(segment, last, high_watermark):
            break
        causes.append(f"retention.bytes = {limit}: the log has {size}")
        size -= segment.size
    return causes


def _by_age(
    segments: list[Segment], first: int, high_watermark: int, limit: int, disk: Disk, wall_ms: int
) -> list[str]:
    if limit < 0:
        return []
    causes = []
    for number in range(first, len(segments)):
        segment = segments[number]
        if not _may_go(segment, number + 1 == len(segments), high_watermark):
            break
        written_ms, basis = _written(segment, disk, wall_ms)
        age_ms = wall_ms - written_ms
        if age_ms <= limit:
            break
        causes.append(f"retention.ms = {limit}: {basis} is {age_ms} ms old")
    return causes


def _may_go(segment: Segment, last: bool, high_watermark: int) -> bool:
    return segment.next_offset <= high_watermark and not (last and not segment.size)


def _written(segment: Segment, disk: Disk, wall_ms: int) -> tuple[int, str]:
    """When the newest record of a segment was written, as far as that is known."""
    stamp = segment.largest_timestamp()
    if 0 <= stamp <= wall_ms:
        return stamp, "its largest timestamp"
    modified = disk.modified_ms(segment.path)
    if modified > wall_ms:
        # The clock was ahead when this was written. The file remembers when that was noticed.
        modified = wall_ms
        disk.set_modified_ms(segment.path, wall_ms)
    return modified, "the last write to it"
