"""Builds the two indexes of a segment from its batch headers.

Always: the entries are those that appending the same batches would have written.
"""

from barnabas.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from barnabas.wire.batch import BatchHeader


class IndexBuilder:
    """Give it every batch in order, then `finish`."""

    __slots__ = (
        "_base_offset",
        "_bytes_since_entry",
        "_interval",
        "first_timestamp",
        "last_time_entry",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_entries",
        "time_entries",
    )

    def __init__(self, base_offset: int, interval: int) -> None:
        self._base_offset = base_offset
        self._interval = interval
        self._bytes_since_entry = 0
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.last_time_entry = -1

    def add(self, position: int, header: BatchHeader) -> None:
        # A batch that compaction has emptied has a timestamp, but no record that has it.
        timestamp = header.max_timestamp if header.record_count else -1
        self.add_batch(position, header.size, header.last_offset, timestamp)

    def add_batch(self, position: int, size: int, last_offset: int, timestamp: int) -> None:
        if position == 0:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_entry > self._interval:
            self.offset_entries += OFFSET_ENTRY.pack(last_offset - self._base_offset, position)
            self._add_time_entry()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def finish(self) -> None:
        """A complete time index ends with the largest timestamp of the segment."""
        self._add_time_entry()

    def _add_time_entry(self) -> None:
        if self.max_timestamp > self.last_time_entry:
            relative = self.max_timestamp_offset - self._base_offset
            self.time_entries += TIME_ENTRY.pack(self.max_timestamp, relative)
            self.last_time_entry = self.max_timestamp
