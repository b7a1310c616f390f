"""Decides whether the indexes of a segment can be trusted: lengths, and entries against batches.

In: a segment that another process may have written. Out: the problem in words, or nothing.
Always: only the last entries, and those where a search ends, are checked: a walk over all entries
would take long.
Not here: rebuilding them (segment.py, index_builder.py).
"""

from typing import TYPE_CHECKING

from barnabas.log.segments.index import OFFSET_ENTRY, RELATIVE_OFFSET_MAX, TIME_ENTRY
from barnabas.log.segments.scan import chain_problem, headers
from barnabas.model.errors import Corrupt
from barnabas.model.ports import Disk
from barnabas.wire.batch import HEADER, HEADER_SIZE, BatchHeader

if TYPE_CHECKING:
    from barnabas.log.segments.segment import Segment

UNINDEXED_BYTES_MAX = 1 << 20


def index_problem(segment: "Segment", disk: Disk) -> str:
    """What is wrong with the files or their last entries; sets the number of entries of both."""
    offsets, times = segment.offset_index, segment.time_index
    for index, entry_size in ((offsets, OFFSET_ENTRY.size), (times, TIME_ENTRY.size)):
        try:
            length = disk.size(index.path)
        except FileNotFoundError:
            return f"{index.path} is missing"
        if length % entry_size:
            return f"{index.path} has {length} bytes, not a multiple of {entry_size}"
        index.count = length // entry_size
    span = segment.next_offset - segment.base_offset or RELATIVE_OFFSET_MAX
    if problem := offsets.last_problem(segment.size, span):
        return problem
    if not offsets.count and segment.size > UNINDEXED_BYTES_MAX:
        return f"{offsets.path} has no entry for {segment.size} bytes"
    if not times.count and segment.first_time() >= 0:
        return f"{times.path} is empty, but there are timestamps"
    # The largest timestamp decides whole searches.
    return time_problem(segment, *times.last_entry()) if times.count else ""


def entry_problem(segment: "Segment", relative: int, position: int) -> str:
    """Why an entry of the offset index is no start for a search."""
    data = segment.file().read(position, HEADER_SIZE)
    if position < segment.size and len(data) == HEADER_SIZE:
        header = BatchHeader._make(HEADER.unpack(data))
        # Kafka's own entries may be for a later batch: they only promise a place to start.
        inside = 0 <= header.base_offset - segment.base_offset <= relative
        if inside and not chain_problem(header, segment.size - position):
            return ""
    offset = segment.base_offset + relative
    return f"no batch at position {position} to find offset {offset} from"


def time_problem(segment: "Segment", timestamp: int, relative: int) -> str:
    """Why an entry of the time index is wrong."""
    offset = segment.base_offset + relative
    try:
        start = segment.offset_index.floor(relative)
        for _, header in headers(segment.file(), start, segment.size):
            if header.last_offset >= offset:
                if header.base_offset <= offset and header.max_timestamp == timestamp:
                    return ""
                break
    except Corrupt as error:
        return error.detail
    return f"{segment.time_index.path}: no batch at {offset} has timestamp {timestamp}"
