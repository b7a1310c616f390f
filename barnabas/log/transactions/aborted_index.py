"""Aborted transactions of one segment, in Kafka's `.txnindex` format.

In: transactions whose abort marker is in the segment, in the order of their markers.
Out: those that a reader of a range of offsets must know.
Always: the file is made with the first abort; last offsets rise; an entry is whole or not there.
Not here: which segments to look into, when to rebuild the file.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from barnabas.model.errors import Corrupt
from barnabas.model.ports import Disk

VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size  # 34


class AbortedTransaction(NamedTuple):
    """`stable_offset`: the last stable offset after the marker, as far as markers decide it."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class AbortedIndex:
    """The entries are read when first asked for, and kept: 34 bytes each."""

    __slots__ = ("_data", "_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._data: bytearray | None = None

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for _, *fields in _ENTRY.iter_unpack(self._load()):
            yield AbortedTransaction._make(fields)

    def __len__(self) -> int:
        return len(self._load()) // ENTRY_SIZE

    def append(self, aborted: AbortedTransaction) -> None:
        data = self._load()
        if data and aborted.last_offset <= self._last_offset(data):
            raise AssertionError(
                f"{self.path}: marker {aborted.last_offset} after {self._last_offset(data)}"
            )
        entry = _ENTRY.pack(VERSION, *aborted)
        file = self._disk.open(self.path, create=True)
        try:
            file.write(len(data), entry)
        finally:
            file.close()
        data += entry

    def find(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Those with records in `start` to `end`, and whether later segments can have none."""
        found = []
        for aborted in self:
            if aborted.last_offset >= start and aborted.first_offset < end:
                found.append(aborted)
            if aborted.stable_offset >= end:
                return found, True
        return found, False

    def truncate(self, offset: int) -> bool:
        """Forget those whose marker is at `offset` or above; True if there were any."""
        data = self._load()
        kept = sum(aborted.last_offset < offset for aborted in self) * ENTRY_SIZE
        if kept == len(data):
            return False
        self._cut_file(kept)
        del data[kept:]
        return True

    def replace(self, aborted: Iterable[AbortedTransaction], *, sync: bool) -> None:
        """Write the file again; without entries, remove it."""
        data = bytearray().join(_ENTRY.pack(VERSION, *each) for each in aborted)
        if not data:
            self._disk.remove(self.path)
        else:
            file = self._disk.open(self.path, create=True)
            try:
                file.truncate(0)
                file.write(0, data)
                if sync:
                    file.sync()
            finally:
                file.close()
        self._data = data

    def sync(self) -> None:
        if self._disk.exists(self.path):
            file = self._disk.open(self.path)
            try:
                file.sync()
            finally:
                file.close()

    def check(self, base_offset: int, end_offset: int) -> None:
        """Corrupt unless the entries can be those of a segment with these offsets."""
        last = base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(self._load()):
            aborted = AbortedTransaction._make(fields)
            if version != VERSION:
                raise Corrupt(f"{self.path}: entry of version {version}, {VERSION} expected")
            if not last < aborted.last_offset < end_offset or not (
                0 <= aborted.first_offset < aborted.last_offset
            ):
                raise Corrupt(
                    f"{self.path}: transaction of offsets {aborted.first_offset} to"
                    f" {aborted.last_offset} after {last}, in a segment of offsets {base_offset}"
                    f" to {end_offset}"
                )
            last = aborted.last_offset

    def _load(self) -> bytearray:
        data = self._data
        if data is None:
            try:
                data = bytearray(self._disk.read_file(self.path))
            except FileNotFoundError:
                data = bytearray()
            del data[len(data) - len(data) % ENTRY_SIZE :]  # a torn write
            self._data = data
        return data

    def _cut_file(self, length: int) -> None:
        file = self._disk.open(self.path)
        try:
            file.truncate(length)
        finally:
            file.close()

    @staticmethod
    def _last_offset(data: bytearray) -> int:
        offset: int = _ENTRY.unpack_from(data, len(data) - ENTRY_SIZE)[3]
        return offset
