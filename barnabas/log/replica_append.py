"""Appends batches that have their offsets already: those of a leader, or of a log that moves.

In: whole batches as they are in a log. Out: the same bytes here, and everything derived from them.
Always: offsets only grow; a batch below the end of the log is here already, and is left out.
Not here: a client's batches (append.py), who copies and when the copy is complete (the broker).
"""

from typing import TYPE_CHECKING

from barnabas.log.append import write_failed
from barnabas.log.roll import segment_for
from barnabas.log.segments.index import RELATIVE_OFFSET_MAX
from barnabas.log.segments.segment import Segment
from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer
from barnabas.wire.batch import CONTROL, BatchHeader, check_crc, read_header
from barnabas.wire.records import iter_batches

if TYPE_CHECKING:
    from barnabas.log.log import Log


def append_copied(log: "Log", data: bytes, wall_ms: int) -> None:
    for header, batch in iter_batches(data):
        if header.base_offset + header.last_offset_delta < log.end_offset:
            continue
        check_crc(batch, header)
        append_one(log, header, batch, wall_ms)


def append_fetched(log: "Log", data: Buffer, wall_ms: int) -> int:
    """Checked and written from where they were received, with one write if the segment has room.

    The batches continue this log, or leave a hole where compaction made one.
    """
    view = memoryview(data)
    found: list[BatchHeader] = []
    expected = log.end_offset
    begin = position = 0
    while position < len(view):
        header = read_header(view, position)
        last_offset = header.base_offset + header.last_offset_delta
        if last_offset < expected and not found:  # here already
            begin = position = position + header.size
            continue
        if header.last_offset_delta < 0 or (header.base_offset < expected and (found or log.size)):
            raise Corrupt(
                f"{log.partition}: batch {header.base_offset} to {last_offset} was sent, "
                f"{expected} is next"
            )
        check_crc(view, header, position)
        found.append(header)
        expected = last_offset + 1
        position += header.size
    if found:
        _append_run(log, found, view[begin:], wall_ms)
    return position - begin


def _append_run(log: "Log", found: list[BatchHeader], data: memoryview, wall_ms: int) -> None:
    first, last = found[0], found[-1]
    segment, config = log.active, log.config
    timestamps = [header.max_timestamp for header in found]
    began = segment.first_timestamp if segment.size else timestamps[0]
    if (
        segment.entries_left <= len(found)
        or segment.size + len(data) > config.segment_bytes
        or last.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        or first.base_offset < segment.base_offset
        or (max(timestamps) - began if began >= 0 else wall_ms - segment.created_ms)
        > config.segment_ms - segment.jitter_ms
    ):
        position = 0
        for header in found:  # rolls where it must
            append_one(log, header, data[position : position + header.size], wall_ms)
            position += header.size
        return
    written = [(each.size, each.last_offset, each.max_timestamp) for each in found]
    try:
        segment.extend(data, written, config.index_interval_bytes)
    except OSError as error:
        raise write_failed(log, error) from error
    position = 0
    for header in found:
        _derive(log, header, data[position : position + header.size])
        position += header.size
    log.end_offset = last.last_offset + 1
    log.size += len(data)


def append_one(log: "Log", header: BatchHeader, batch: memoryview, wall_ms: int) -> None:
    """Append a batch that has been checked, with the offsets that it has."""
    size = header.size
    last_offset = header.base_offset + header.last_offset_delta
    try:
        if not log.size and header.base_offset < log.active.base_offset:
            log.start_at(header.base_offset)  # its first batch holds the start of the log
        segment = _room_for(log, size, last_offset, header.max_timestamp, wall_ms)
        interval = log.config.index_interval_bytes
        segment.append(batch, size, last_offset, header.max_timestamp, interval)
    except OSError as error:
        raise write_failed(log, error) from error
    _derive(log, header, batch)
    log.end_offset = last_offset + 1
    log.size += size


def _room_for(log: "Log", size: int, last_offset: int, max_timestamp: int, wall_ms: int) -> Segment:
    segment = segment_for(log, size, last_offset, max_timestamp, wall_ms)
    if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:  # empty, and too far back
        log.skip_to(last_offset)
        segment = segment_for(log, size, last_offset, max_timestamp, wall_ms)
    return segment


def _derive(log: "Log", header: BatchHeader, batch: memoryview) -> None:
    """Leader epochs, producers and their transactions follow from the batch."""
    if header.leader_epoch > log.epochs.latest:
        log.epochs.begin(header.leader_epoch, header.base_offset)
    if header.producer_id >= 0:
        if header.attributes & CONTROL:
            _end_transaction(log, header, batch)
        else:
            log.producers.replay(header)
    if not header.record_count:
        log.reader.sparse = True


def _end_transaction(log: "Log", header: BatchHeader, batch: memoryview) -> None:
    from barnabas.log.producers.replay import replay_marker
    from barnabas.log.transactions.append import transaction_ended

    found = replay_marker(log.producers, header, batch)
    if found is not None:
        ended, commit = found
        transaction_ended(log, ended, commit=commit)
