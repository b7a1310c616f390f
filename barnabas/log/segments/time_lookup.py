"""Finds records by timestamp: index, then headers, then the records of one batch.

In: the segments of a log. Out: offset, timestamp and leader epoch of one record.
Not here: decoding of records (wire/records.py).
"""

from typing import NamedTuple

from barnabas.log.segments.scan import headers
from barnabas.log.segments.segment import Segment
from barnabas.model.ports import FileSlice
from barnabas.wire.batch import BatchHeader

READ_BYTES = 1 << 20  # from an index entry on: the batches up to the next, or one large batch


class FoundRecord(NamedTuple):
    """One record; `leader_epoch` is that of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_time(segments: list[Segment], timestamp: int, start_offset: int) -> FoundRecord | None:
    """The first record at or above `start_offset` whose timestamp is not below `timestamp`."""
    for segment in segments:
        if segment.next_offset <= start_offset or not segment.size:
            continue
        if segment.largest_timestamp() < timestamp:
            continue
        relative = max(segment.floor_time(timestamp), start_offset - segment.base_offset)
        position = segment.floor(relative)
        for at, header in headers(segment.file(), position, segment.size):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            found = _in_batch(segment, at, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def first_batch_since(
    segments: list[Segment], timestamp: int, start_offset: int
) -> BatchHeader | None:
    """The first batch with an offset from `start_offset` on that is not older than `timestamp`."""
    for segment in segments:
        if segment.next_offset <= start_offset or not segment.size:
            continue
        if segment.largest_timestamp() < timestamp:
            continue
        relative = max(segment.floor_time(timestamp), start_offset - segment.base_offset)
        for _, header in headers(segment.file(), segment.floor(relative), segment.size):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                return header
    return None


def time_slice(
    segments: list[Segment], timestamp: int | None, start_offset: int
) -> FileSlice | None:
    """Where `find_time` would begin to read, by the indexes alone; None: the largest timestamp."""
    searched = [each for each in segments if each.size and each.next_offset > start_offset]
    if timestamp is None:
        timestamp = max((each.largest_timestamp() for each in searched), default=-1)
    for segment in searched:
        if segment.largest_timestamp() >= timestamp:
            relative = max(segment.floor_time(timestamp), start_offset - segment.base_offset)
            position = segment.floor(relative)
            length = min(READ_BYTES, segment.size - position)
            return FileSlice(segment.file(), position, length)
    return None


def find_max_timestamp(segments: list[Segment], start_offset: int) -> FoundRecord | None:
    """The first record that has the largest timestamp of the log."""
    best: FoundRecord | None = None
    for segment in segments:
        if not segment.size or segment.next_offset <= start_offset:
            continue
        largest = segment.largest_timestamp()
        if largest < 0 or (best is not None and largest <= best.timestamp):
            continue
        found = find_time([segment], largest, start_offset)
        if found is None:
            # The batch that had it lies below the start, or has lost that record.
            found = _walk_for_max(segment, start_offset)
        if found is not None and (best is None or found.timestamp > best.timestamp):
            best = found
    return best


def _walk_for_max(segment: Segment, start_offset: int) -> FoundRecord | None:
    """The same within one segment, from the headers of its batches."""
    best: FoundRecord | None = None
    for at, header in headers(segment.file(), 0, segment.size):
        if header.last_offset < start_offset or not header.record_count:
            continue
        if best is not None and header.max_timestamp <= best.timestamp:
            continue
        found = _in_batch(segment, at, header, header.max_timestamp, start_offset)
        if found is None and header.base_offset < start_offset:
            found = _last_resort(segment, at, header, start_offset)
        if found is not None and (best is None or found.timestamp > best.timestamp):
            best = found
    return best


def _last_resort(
    segment: Segment, position: int, header: BatchHeader, start_offset: int
) -> FoundRecord | None:
    """The log starts inside this batch: only its later records count."""
    from barnabas.wire.records import decode_batch

    best: FoundRecord | None = None
    for record in decode_batch(segment.file().read(position, header.size)):
        if record.offset >= start_offset and (best is None or record.timestamp > best.timestamp):
            best = FoundRecord(record.offset, record.timestamp, header.leader_epoch)
    return best


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> FoundRecord | None:
    from barnabas.wire.records import decode_batch, find_by_time

    batch = segment.file().read(position, header.size)
    found = find_by_time(batch, timestamp)
    if found is None:
        return None
    if found[0] >= start_offset:
        return FoundRecord(*found, header.leader_epoch)
    # The log starts inside this batch, behind the record found.
    for record in decode_batch(batch):
        if record.offset >= start_offset and record.timestamp >= timestamp:
            return FoundRecord(record.offset, record.timestamp, header.leader_epoch)
    return None
