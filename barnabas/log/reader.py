"""Finds the slice of a file that answers a read.

In: an offset, a limit, how many bytes. Out: whole batches of one segment, still in their file.
Always: a reader that continues where its last read ended needs no scan: the positions where
recent reads ended are remembered.
Always: where compaction has left batches without records, a slice begins with one that has some,
if there is any: some clients take a reply without records for a batch too large for them. A copy
of the log needs them: they have the last sequences of producers.
Not here: which offsets may be read (log.py).
"""

from bisect import bisect_right
from operator import attrgetter

from msgspec import Struct

from barnabas.log.segments.scan import headers
from barnabas.log.segments.segment import Segment
from barnabas.model.ports import FileSlice

POSITIONS_MAX = 256  # readers whose next position is remembered
_base_offset = attrgetter("base_offset")


class BatchSlice(Struct, frozen=True):
    """Whole batches, still in their file, and the offset to go on with."""

    file_slice: FileSlice | None
    next_offset: int


class LogReader:
    """Reads over the log's own list of segments; the last one is being appended to."""

    __slots__ = ("_positions", "_segments", "sparse")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._positions: dict[int, tuple[Segment, int]] = {}
        self.sparse = False  # there may be batches without records, and segments without batches

    def read(
        self, offset: int, bytes_max: int, limit: int, min_one: bool, for_copy: bool = False
    ) -> BatchSlice:
        """From the batch that holds `offset`, below `limit`, which must be in the log.

        `for_copy`: the slice may begin with batches without records.
        """
        places = self._positions
        place = places.get(offset)
        if self.sparse and not for_copy and (place is None or place[0] is not self._segments[-1]):
            place = self._locate_records(offset, limit)
        segment, position = self._locate(offset) if place is None else place
        stop_offset = segment.next_offset
        if limit >= stop_offset:
            stop = segment.size
        else:
            stop, stop_offset = self._stop(segment, limit)
        if stop - position > bytes_max:
            stop, stop_offset = _slice_end(segment, position, stop, stop_offset, bytes_max, min_one)
        if stop <= position:
            return BatchSlice(None, offset)
        if stop_offset not in places:
            self._remember(stop_offset, segment, stop)
        return BatchSlice(FileSlice(segment.file(), position, stop - position), stop_offset)

    def segment_at(self, offset: int) -> int:
        """Which segment has the offset, or would have it."""
        return max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)

    def rolled(self, segment: Segment) -> None:
        """A reader that had reached the end continues in the new segment."""
        self._positions[segment.base_offset] = (segment, 0)

    def forget(self) -> None:
        """Segments have been cut: no remembered position is valid any more."""
        self._positions.clear()

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._positions
        if len(places) >= POSITIONS_MAX:
            del places[next(iter(places))]
        if position == segment.size and segment is not self._segments[-1]:
            segment, position = self._segments[self.segment_at(offset)], 0
            if segment.base_offset != offset:
                return  # a hole: the next read looks it up
            if not segment.size and segment is not self._segments[-1]:
                return  # compaction left nothing of it
        places[offset] = (segment, position)

    def _locate(self, offset: int) -> tuple[Segment, int]:
        for segment in self._segments[self.segment_at(offset) :]:
            found = segment.locate(offset)
            if found is not None:
                return segment, found[0]
        return self._segments[-1], self._segments[-1].size

    def _locate_records(self, offset: int, limit: int) -> tuple[Segment, int]:
        """The first batch with records; if there is none below `limit`, the last without."""
        last: tuple[Segment, int] | None = None
        for segment in self._segments[self.segment_at(offset) :]:
            if segment.base_offset >= limit:
                break
            found = segment.locate(offset) if segment.size else None
            if found is None:
                continue
            if found[1].record_count:
                return segment, found[0]
            for position, header in headers(segment.file(), found[0], segment.size):
                if header.last_offset >= limit:
                    break
                last = segment, position
                if header.record_count:
                    return last
        return last or self._locate(offset)

    def _stop(self, segment: Segment, limit: int) -> tuple[int, int]:
        """Where a slice must end so that it holds nothing at or above `limit`."""
        place = self._positions.get(limit)
        if place is not None and place[0] is segment:
            return place[1], limit
        found = segment.locate(limit)
        if found is None:
            return segment.size, segment.next_offset
        position, header = found
        if header.base_offset == limit:
            self._remember(limit, segment, position)
        return position, header.base_offset


def _slice_end(
    segment: Segment, position: int, stop: int, stop_offset: int, bytes_max: int, min_one: bool
) -> tuple[int, int]:
    """Where a slice of whole batches from `position` ends, and the offset that follows it.

    It ends at or before `stop` and holds `bytes_max` at most, but for the first batch.
    """
    limit = position + bytes_max
    file = segment.file()
    entry = segment.floor_position(limit)
    if entry - position > bytes_max >> 1:
        # Good enough, and one small read: filling the rest would scan every header.
        return entry, int.from_bytes(file.read(entry, 8), "big")
    end, next_offset = position, -1
    for at, header in headers(file, position, stop):
        after = at + header.size
        if after > limit and (end > position or not min_one):
            next_offset = header.base_offset
            break
        end, next_offset = after, header.last_offset + 1
        if after >= limit:
            break
    if end == stop:
        next_offset = stop_offset
    return end, next_offset
