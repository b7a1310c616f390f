"""One segment of a log: a file of batches and its two indexes, three with aborted transactions.

In: batches whose offsets are set, in order. Out: positions of batches.
Always: `size` bytes of the file are whole batches; `next_offset` follows the last of them.
Always: files and mappings open when first needed and may be given back at any time.
Not here: which batches are allowed (log/append.py), when to roll (log/roll.py), removing batches
at its end (segment_truncation.py), whether an index can be trusted (index_check.py), damage
(log/recovery/log_recovery.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.log.config import LogConfig
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments import index_check
from barnabas.log.segments.index import (
    RELATIVE_OFFSET_MAX,
    OffsetIndex,
    TimeIndex,
)
from barnabas.log.segments.index_builder import IndexBuilder
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.log.segments.scan import headers
from barnabas.model.errors import Corrupt
from barnabas.model.ports import Disk, File
from barnabas.wire.batch import HEADER, HEADER_SIZE, BatchHeader

if TYPE_CHECKING:
    from barnabas.log.producers.state import EndedTransaction
    from barnabas.log.transactions.aborted_index import AbortedIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
ABORTED_INDEX_SUFFIX = ".txnindex"
UNKNOWN = -2  # a timestamp that has not been looked up yet

Written = tuple[int, int, int]
"""A batch: its size, last offset and largest timestamp."""


class Segment:
    """Batches from `base_offset` on."""

    __slots__ = (
        "_aborted",
        "_bytes_since_entry",
        "_disk",
        "_indexes_checked",
        "_indexes_ours",
        "_interval",
        "_open_segments",
        "_stem",
        "base_offset",
        "created_ms",
        "durable",
        "entries_left",
        "findings",
        "first_timestamp",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "offset_index",
        "open_file",
        "size",
        "suffix",
        "time_index",
        "used",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        size: int,
        open_segments: OpenSegments,
        findings: list[RecoveryFinding],
        interval: int,
    ) -> None:
        self._disk = disk
        self._open_segments = open_segments
        self._interval = interval  # for rebuilding; appends get it as a parameter
        self._stem = f"{directory}/{base_offset:020d}"
        self.open_file: File | None = None  # opened when it is first needed
        self._indexes_checked = size == 0
        self._indexes_ours = size == 0  # made by this process: no entry needs a look
        self._bytes_since_entry = 0
        self._aborted: AbortedIndex | None = None  # made when it is first needed
        self.findings = findings
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = size
        self.suffix = ""  # of its files, while it takes the place of others
        self.used = False
        self.durable = False  # sealed, and all its files synced
        self.created_ms = 0
        self.jitter_ms = 0
        self.entries_left = 0  # index entries that fit; 0 also while not ready for appending
        unread = UNKNOWN if size else -1
        self.first_timestamp = unread
        self.max_timestamp = unread
        self.max_timestamp_offset = base_offset
        self.offset_index = OffsetIndex(disk, self._stem + INDEX_SUFFIX, 0)
        self.time_index = TimeIndex(disk, self._stem + TIME_INDEX_SUFFIX, 0)

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        open_segments: OpenSegments,
        findings: list[RecoveryFinding],
        interval: int,
    ) -> "Segment":
        """An empty segment with its files; whatever a lost one left under the name is cut."""
        segment = cls(disk, directory, base_offset, 0, open_segments, findings, interval)
        segment.create_files()
        return segment

    @property
    def path(self) -> str:
        return self._stem + LOG_SUFFIX + self.suffix

    def set_suffix(self, suffix: str) -> None:
        """Its files have, or are about to have, names that end so."""
        self.suffix = suffix
        self.offset_index.path = self._stem + INDEX_SUFFIX + suffix
        self.time_index.path = self._stem + TIME_INDEX_SUFFIX + suffix
        if self._aborted is not None:
            self._aborted.path = self.aborted_path

    def renamed(self, directory: str) -> None:
        """Its directory has another name now; open files and mappings stay as they are."""
        self._stem = f"{directory}/{self.base_offset:020d}"
        self.set_suffix(self.suffix)

    @property
    def paths(self) -> tuple[str, str, str]:
        """Indexes first: a log file without them is sound, they without it are not."""
        return self.offset_index.path, self.time_index.path, self.path

    @property
    def aborted_path(self) -> str:
        """The file is there only if a transaction was aborted in this segment. It has no suffix:
        before a segment takes the place of others, the file has the entries of all of them."""
        return self._stem + ABORTED_INDEX_SUFFIX

    def has_aborted(self) -> bool:
        return self._disk.exists(self.aborted_path)

    @property
    def aborted(self) -> "AbortedIndex":
        if self._aborted is None:
            from barnabas.log.transactions.aborted_index import AbortedIndex

            self._aborted = AbortedIndex(self._disk, self.aborted_path)
        return self._aborted

    def reload_aborted(self) -> None:
        """The file was replaced."""
        self._aborted = None

    # --- files ---------------------------------------------------------------------------------

    def file(self) -> File:
        """The open log file."""
        self.used = True
        file = self.open_file
        if file is None:
            file = self.open_file = self._disk.open(self.path)
            self._open_segments.add(self)
        return file

    def create_files(self) -> None:
        for path in self.paths:
            file = self._disk.open(path, create=True)
            try:
                if file.size():
                    file.truncate(0)
            finally:
                file.close()

    def cool(self) -> None:
        """Drop files and mappings; a reader that holds the file keeps it."""
        self.open_file = None
        self.entries_left = 0
        self.offset_index.release()
        self.time_index.release()

    def close(self) -> None:
        self._open_segments.discard(self)
        self.cool()

    def remove_files(self) -> None:
        self.close()
        for path in (*self.paths, self.aborted_path):
            self._disk.remove(path)
        self._aborted = None

    # --- appending -----------------------------------------------------------------------------

    def append(
        self, batch: memoryview, size: int, last_offset: int, max_timestamp: int, interval: int
    ) -> None:
        """Write one batch behind the last; nothing has changed if the write raises."""
        file = self.open_file
        if file is None:
            file = self.file()
        file.write(self.size, batch)
        self.used = True
        self._written(size, last_offset, max_timestamp, interval)

    def extend(self, data: memoryview, batches: list[Written], interval: int) -> None:
        """Write batches that follow each other with one call.

        There must be room for an index entry for each of them.
        """
        self.file().write(self.size, data)
        for size, last_offset, max_timestamp in batches:
            self._written(size, last_offset, max_timestamp, interval)

    def _written(self, size: int, last_offset: int, max_timestamp: int, interval: int) -> None:
        """One more batch is in the file."""
        position = self.size
        self.size = position + size
        self.next_offset = last_offset + 1
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_entry > interval:
            self._add_entry(last_offset, position)
            self._bytes_since_entry = size
        else:
            self._bytes_since_entry += size

    def _add_entry(self, last_offset: int, position: int) -> None:
        self.entries_left -= 1
        self.offset_index.append(last_offset - self.base_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def prepare(self, config: LogConfig, wall_ms: int) -> None:
        """Make ready for appending: what rolling and indexing need to know."""
        self._interval = config.index_interval_bytes
        self.load_indexes()
        self._open_segments.add(self)
        self.file()  # or an append could fail to open it, with nothing written to undo
        if not self.created_ms:
            self.created_ms = wall_ms
        self.first_time()
        index_bytes = config.segment_index_bytes
        # Sealing may need one more entry in the time index.
        self.entries_left = min(
            self.offset_index.reserve(index_bytes), self.time_index.reserve(index_bytes, spare=1)
        )

    def cut_to_size(self) -> None:
        """Remove what a failed write may have left behind the last whole batch."""
        self.file().truncate(self.size)

    def cut_at(self, position: int) -> None:
        """Keep the batches before `position`; their indexes are cut already."""
        self.file().truncate(position)
        self.size = position
        self.durable = False
        self._bytes_since_entry = 0

    def seal(self) -> None:
        """No more appends: the time index ends with the largest timestamp, both are trimmed."""
        if self.size:
            self.load_indexes()
            if self.max_timestamp > self.time_index.last_timestamp:
                self.time_index.reserve(0)
                self.time_index.append(
                    self.max_timestamp, self.max_timestamp_offset - self.base_offset
                )
        self.offset_index.trim()
        self.time_index.trim()

    # --- looking up ----------------------------------------------------------------------------

    def load_indexes(self) -> None:
        """Look at lengths and last entries; rebuild what is not sound.

        Any other entry is looked at when a search ends at it: a walk over all would take long.
        """
        if self._indexes_checked:
            return
        if problem := index_check.index_problem(self, self._disk):
            self.distrust(problem)
        self._indexes_checked = True
        timestamp, relative = self.time_index.last_entry()
        self.max_timestamp = timestamp
        self.max_timestamp_offset = self.base_offset + relative

    def distrust(self, problem: str) -> None:
        """Rebuild both indexes, and report why."""
        self.entries_left = 0  # so the next append reserves room again
        self.rebuild_indexes()
        self.findings.append(RecoveryFinding(self.offset_index.path, problem, "indexes rebuilt"))

    def floor(self, relative_offset: int) -> int:
        """Where to start a scan for an offset."""
        self.load_indexes()
        entry = self.offset_index.floor_entry(relative_offset)
        if self._rebuilt_for(*entry):
            entry = self.offset_index.floor_entry(relative_offset)
        return entry[1]

    def floor_position(self, position: int) -> int:
        """The last indexed batch start at or before `position`; 0 when there is none."""
        self.load_indexes()
        entry = self.offset_index.floor_position(position)
        if self._rebuilt_for(*entry):
            entry = self.offset_index.floor_position(position)
        return entry[1]

    def floor_time(self, timestamp: int) -> int:
        """The relative offset up to which every timestamp is below `timestamp`; 0 if unknown."""
        self.load_indexes()
        found, relative = self.time_index.floor(timestamp)
        if (
            found >= 0
            and not self._indexes_ours
            and (problem := index_check.time_problem(self, found, relative))
        ):
            self.distrust(problem)
            relative = self.time_index.floor(timestamp)[1]
        return relative

    def _rebuilt_for(self, relative: int, position: int) -> bool:
        """True if the entry does not match its batch; the indexes have been rebuilt then."""
        if relative < 0 or self._indexes_ours:
            return False
        problem = index_check.entry_problem(self, relative, position)
        if problem:
            self.distrust(problem)
        return bool(problem)

    def first_time(self) -> int:
        """The largest timestamp of its first batch; -1 if that has none, or no records."""
        if self.first_timestamp == UNKNOWN:
            header = BatchHeader._make(HEADER.unpack_from(self.file().read(0, HEADER_SIZE)))
            self.first_timestamp = header.max_timestamp if header.record_count else -1
        return self.first_timestamp

    def rebuild_indexes(self) -> None:
        """From the headers of the batches; synced, as the log before may be durable already."""
        builder = IndexBuilder(self.base_offset, self._interval)
        for position, header in headers(self.file(), 0, self.size, 1 << 16):
            if not 0 <= header.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX:
                raise Corrupt(
                    f"{self.path}: the batch at position {position} ends at offset "
                    f"{header.last_offset}, which is not in this segment"
                )
            builder.add(position, header)
        self.adopt_indexes(builder, sync=True)

    def adopt_indexes(self, builder: IndexBuilder, *, sync: bool = False) -> None:
        builder.finish()
        self.offset_index.replace(builder.offset_entries, sync=sync)
        self.time_index.replace(builder.time_entries, sync=sync)
        self.time_index.last_timestamp = builder.last_time_entry
        self.max_timestamp = builder.max_timestamp
        self.max_timestamp_offset = builder.max_timestamp_offset
        self.first_timestamp = builder.first_timestamp
        self._bytes_since_entry = 0
        self._indexes_checked = self._indexes_ours = True

    def adopt_aborted(self, ended: "Sequence[EndedTransaction]", *, sync: bool) -> None:
        """The aborted transactions whose markers are in this segment: all, found again."""
        if not ended:
            self._disk.remove(self.aborted_path)
            self._aborted = None
            return
        from barnabas.log.transactions.aborted_index import AbortedTransaction

        self.aborted.replace((AbortedTransaction._make(each) for each in ended), sync=sync)

    def largest_timestamp(self) -> int:
        if self.max_timestamp == UNKNOWN:
            self.load_indexes()
        return self.max_timestamp

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at or after `offset`."""
        start = self.floor(offset - self.base_offset)
        for position, header in headers(self.file(), start, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header
        return None
