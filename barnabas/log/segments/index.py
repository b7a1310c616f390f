"""Sparse indexes of one segment: offset to position, and timestamp to offset.

In: entries in rising order, appended by the segment. Out: floors, by binary search
on the mapped file, so a lookup costs the same however long the log is.
Always: an entry of the offset index holds the last offset of a batch and where that
batch starts; an entry of the time index holds the largest timestamp so far and the
last offset of the first batch that had it. Offsets are relative to the segment's base.
Always: no mapping outlives a change of the file's length (touching it would be fatal).
Not here: when an entry is due (segment.py), rebuilding (index_builder.py).
"""

from array import array
from operator import ge
from struct import Struct
from sys import byteorder

from barnabas.model.ports import Disk

OFFSET_ENTRY = Struct(">II")
TIME_ENTRY = Struct(">qI")
RELATIVE_OFFSET_MAX = 0x7FFF_FFFF  # Kafka reads it as a signed int
_PAGE = 4096
_POSITION = Struct(">I")


class MappedEntries:
    """Fixed-size entries in a file that is mapped only while it is needed."""

    __slots__ = ("_backed", "_disk", "_entry_size", "_grown", "_view", "count", "limit", "path")

    def __init__(self, disk: Disk, path: str, entry_size: int, count: int) -> None:
        self._disk = disk
        self._entry_size = entry_size
        self._view: memoryview | None = None
        self.path = path
        self.count = count
        self.limit = 0  # entries that fit; 0 while no room is mapped for writing
        self._backed = 0  # entries whose blocks are surely on the disk
        self._grown = False  # the file may be longer than its entries

    def reserve(self, bytes_max: int, spare: int = 0) -> int:
        """Make room for appending; how many entries fit now, `spare` ones not counted.

        The file gets its full (sparse) length and is mapped. Blocks are written ahead, a page
        at a time: a store into a hole of a full disk would kill the process, a write only fails.
        """
        size = self._entry_size
        if not self.limit:
            self.release()
            limit = max(bytes_max // size, self.count + 1 + spare)
            file = self._disk.open(self.path, create=True)
            try:
                self._grown = True
                file.truncate(self.count * size)  # nothing stale behind the last entry
                file.truncate(limit * size)
                self._view = file.map(limit * size)
            finally:
                file.close()
            self.limit = limit
            self._backed = self.count
        if self._backed - self.count <= spare and self._backed < self.limit:
            ahead = min(_PAGE // size, self.limit - self._backed)
            file = self._disk.open(self.path)
            try:
                file.write(self._backed * size, bytes(ahead * size))
            finally:
                file.close()
            self._backed += ahead
        return self._backed - self.count - spare

    def view(self) -> memoryview:
        """The entries; only to be called while there are any."""
        view = self._view
        if view is None:
            file = self._disk.open(self.path)
            try:
                view = self._view = file.map(self.count * self._entry_size)
            finally:
                file.close()
        return view

    def release(self) -> None:
        """Give the mapping back; the entries stay in the file."""
        if self._view is not None:
            self._view.release()
            self._view = None
        self.limit = 0

    def trim(self) -> None:
        """Cut the file to its entries, as Kafka leaves a sealed index."""
        self.release()
        if self._grown:
            file = self._disk.open(self.path, create=True)
            try:
                file.truncate(self.count * self._entry_size)
            finally:
                file.close()
            self._grown = False

    def replace(self, data: bytes | bytearray, *, sync: bool) -> None:
        """Replace the file by rebuilt entries."""
        self.release()
        file = self._disk.open(self.path, create=True)
        try:
            file.truncate(0)
            if data:
                file.write(0, data)
            if sync:
                file.sync()
        finally:
            file.close()
        self.count = len(data) // self._entry_size
        self._grown = False

    def _keep(self, count: int) -> None:
        """Forget all entries from `count` on."""
        if count < self.count:
            self.count = count
            self._grown = True


class OffsetIndex(MappedEntries):
    """Last offset of a batch → where the batch starts."""

    __slots__ = ()

    def __init__(self, disk: Disk, path: str, count: int) -> None:
        super().__init__(disk, path, OFFSET_ENTRY.size, count)

    def append(self, relative_offset: int, position: int) -> None:
        assert self.count < self._backed, "the segment makes room before it appends"
        OFFSET_ENTRY.pack_into(self.view(), self.count * 8, relative_offset, position)
        self.count += 1

    def entry(self, slot: int) -> tuple[int, int]:
        relative, position = OFFSET_ENTRY.unpack_from(self.view(), slot * 8)
        return relative, position

    def floor(self, relative_offset: int) -> int:
        """Where to start a scan for an offset: the position of the last entry not above it."""
        return self.floor_entry(relative_offset)[1]

    def floor_entry(self, relative_offset: int) -> tuple[int, int]:
        """The last entry not above an offset; (-1, 0) when there is none."""
        slot = self._floor_slot(relative_offset, 0)
        return self.entry(slot) if slot >= 0 else (-1, 0)

    def floor_position(self, position: int) -> tuple[int, int]:
        """The last entry of a batch that starts at or before `position`; (-1, 0) if none."""
        slot = self._floor_slot(position, 4)
        return self.entry(slot) if slot >= 0 else (-1, 0)

    def truncate_to(self, relative_offset: int) -> None:
        """Forget entries of batches that end at or after `relative_offset`."""
        self._keep(self._floor_slot(relative_offset - 1, 0) + 1)

    def _floor_slot(self, key: int, field: int) -> int:
        high = self.count - 1
        if high < 0 or key < 0:
            return -1
        view = self.view()
        unpack = _POSITION.unpack_from
        last: int = unpack(view, high * 8 + field)[0]
        if last <= key:
            return high
        # Entries are spread evenly, more or less: guess, and close in on both sides of it.
        low, step = -1, 2
        guess = key * high // last
        if unpack(view, guess * 8 + field)[0] <= key:
            low = guess
            while (guess := guess + step) < high and unpack(view, guess * 8 + field)[0] <= key:
                low = guess
                step <<= 2
            high = min(high, guess)
        else:
            high = guess
            while (guess := guess - step) > low and unpack(view, guess * 8 + field)[0] > key:
                high = guess
                step <<= 2
            low = max(low, guess)
        while high - low > 1:
            middle = (low + high) >> 1
            if unpack(view, middle * 8 + field)[0] <= key:
                low = middle
            else:
                high = middle
        return low

    def last_problem(self, segment_size: int, span: int) -> str:
        """What is wrong with the last entry, for a segment of `span` offsets; or nothing."""
        if not self.count:
            return ""
        relative, position = self.entry(self.count - 1)
        if not self.count - 1 <= relative < span:
            return f"entry {self.count} is for relative offset {relative}, the segment has {span}"
        if not self.count - 1 <= position < segment_size:
            return f"entry {self.count} points to {position}, the segment has {segment_size} bytes"
        return ""

    def problem(self) -> str:
        """Why these entries cannot be trusted, or nothing; looks at each of them."""
        words = array("I", bytes(self.view()[: self.count * 8]) if self.count else b"")
        if byteorder == "little":
            words.byteswap()
        offsets, positions = words[0::2], words[1::2]
        if any(map(ge, offsets, offsets[1:])) or any(map(ge, positions, positions[1:])):
            return "entries do not rise"
        return ""


class TimeIndex(MappedEntries):
    """Largest timestamp so far → last offset of the batch that brought it."""

    __slots__ = ("last_timestamp",)

    def __init__(self, disk: Disk, path: str, count: int) -> None:
        super().__init__(disk, path, TIME_ENTRY.size, count)
        self.last_timestamp = -1

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Does nothing unless the timestamp is above all before."""
        if timestamp <= self.last_timestamp:
            return
        assert self.count < self._backed, "the segment makes room before it appends"
        TIME_ENTRY.pack_into(self.view(), self.count * 12, timestamp, relative_offset)
        self.count += 1
        self.last_timestamp = timestamp

    def last_entry(self) -> tuple[int, int]:
        """Timestamp and relative offset; (-1, 0) when empty."""
        if not self.count:
            self.last_timestamp = -1
            return -1, 0
        timestamp, relative = TIME_ENTRY.unpack_from(self.view(), (self.count - 1) * 12)
        self.last_timestamp = timestamp
        return timestamp, relative

    def floor(self, timestamp: int) -> tuple[int, int]:
        """The last entry whose timestamp is below `timestamp`; (-1, 0) if none."""
        slot = self._below(timestamp)
        if slot < 0:
            return -1, 0
        found, relative = TIME_ENTRY.unpack_from(self.view(), slot * 12)
        return found, relative

    def truncate_to(self, relative_offset: int) -> None:
        """Forget entries of batches that end at or after `relative_offset`."""
        count = self.count
        while count:
            if TIME_ENTRY.unpack_from(self.view(), (count - 1) * 12)[1] < relative_offset:
                break
            count -= 1
        self._keep(count)
        self.last_entry()

    def _below(self, timestamp: int) -> int:
        low, high = -1, self.count
        if not high:
            return -1
        view = self.view()
        unpack = TIME_ENTRY.unpack_from
        while high - low > 1:
            middle = (low + high) >> 1
            if unpack(view, middle * 12)[0] < timestamp:
                low = middle
            else:
                high = middle
        return low

    def problem(self) -> str:
        """Why these entries cannot be trusted, or nothing; looks at each of them."""
        last = (-1, -1)
        if not self.count:
            return ""
        for entry in TIME_ENTRY.iter_unpack(self.view()[: self.count * 12]):
            if entry[0] <= last[0] or entry[1] < last[1]:
                return "entries do not rise"
            last = entry
        return ""
