"""Removes the batches at the end of a segment, with their index entries.

In: an offset. Out: the segment without the batches that end at or after it.
Always: no index has an entry of a batch that is gone.
Not here: which segments of a log are removed as a whole (log/truncation.py).
"""

from barnabas.log.segments.scan import headers
from barnabas.log.segments.segment import Segment


def truncate_segment(segment: Segment, offset: int) -> None:
    """Cut every batch that ends at or after `offset`."""
    segment.load_indexes()
    if problem := segment.offset_index.problem() or segment.time_index.problem():
        segment.distrust(problem)  # or entries of what is cut might stay
    found = segment.locate(offset)
    if found is None:  # compaction may have left nothing of what came next
        segment.next_offset = min(segment.next_offset, offset)
        return
    position = found[0]
    relative = offset - segment.base_offset
    segment.offset_index.truncate_to(relative)
    segment.time_index.truncate_to(relative)
    if segment.has_aborted():
        segment.aborted.truncate(offset)
    segment.entries_left = 0
    segment.offset_index.trim()
    segment.time_index.trim()
    segment.cut_at(position)
    _recount(segment)


def _recount(segment: Segment) -> None:
    """Largest timestamp and next offset from the last index entries on."""
    timestamp, relative = segment.time_index.last_entry()
    segment.max_timestamp = timestamp
    segment.max_timestamp_offset = segment.base_offset + relative
    segment.next_offset = segment.base_offset
    if not segment.size:
        segment.first_timestamp = -1
        return
    start = segment.offset_index.floor(relative)
    for _, header in headers(segment.file(), start, segment.size):
        if header.max_timestamp > segment.max_timestamp and header.record_count:
            segment.max_timestamp = header.max_timestamp
            segment.max_timestamp_offset = header.last_offset
        segment.next_offset = header.last_offset + 1
