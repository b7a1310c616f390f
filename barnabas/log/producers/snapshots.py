"""Producer state as files, in Kafka's `.snapshot` format.

In: producer states and the offset they belong to. Out: files, and states read back.
Always: a snapshot that fails its checksum is never used.
Always: the snapshot of a roll is captured on the event loop and encoded and written elsewhere
(SnapshotWrite), under a temporary name. It gets its own name on the event loop (`publish`), and
only if the log still has the records: so it cannot outlive a truncation. A crash before that leaves
a temporary file, which the next start removes; recovery then replays the batches.
Kafka keeps only the last batch of each producer here, so a Kafka broker that restarts no longer
knows the older repeats. We write one entry per remembered batch, oldest first: Kafka reads such a
file too (the last entry of a producer wins), and we get the whole window back.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from struct import Struct
from struct import error as StructError

from barnabas.log.config import INT64_MAX
from barnabas.log.producers.state import (
    SEQUENCE_MASK,
    WINDOW,
    ProducerState,
    ProducerStates,
    Remembered,
)
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.model.ports import Disk
from barnabas.wire.checksum import crc32c

SUFFIX = ".snapshot"
TEMPORARY_SUFFIX = ".tmp"  # a start removes files that end so
VERSION = 1
PENDING_MAX = 16  # captured states of one log; beyond that, a roll writes its snapshot itself
# Producers encoded between two writes. Each write lets the event loop run; without one, 5 ms pass.
PRODUCERS_PER_WRITE = 200
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")  # id, epoch, last sequence, last offset, delta, time, coordinator, txn
_ENTRIES_START = _HEAD.size + _COUNT.size
_NO_BATCH = (Remembered(-1, -1, -1, -1, -1),)

Captured = Mapping[int, ProducerState]
"""Producers by id, which are not changed any more."""


class CorruptSnapshot(Exception):
    """The file is not a complete snapshot."""


def encode(states: ProducerStates) -> bytes:
    entries = b"".join(_encoded_entries(states.entries))
    return _encoded_start(entries) + entries


def _encoded_start(entries: bytes | bytearray) -> bytes:
    count = _COUNT.pack(len(entries) // _ENTRY.size)
    return _HEAD.pack(VERSION, crc32c(entries, crc32c(count))) + count


def _encoded_entries(captured: Captured) -> Iterator[bytes]:
    """The entries of so many producers at a time."""
    pack = _ENTRY.pack
    producers = iter(captured.values())
    while some := tuple(islice(producers, PRODUCERS_PER_WRITE)):
        rows = []
        for state in some:
            batches = state.batches or _NO_BATCH
            for row in batches:
                last = row is batches[-1]
                rows.append(
                    pack(
                        state.producer_id,
                        state.epoch,
                        row.last_sequence,
                        row.last_offset,
                        row.last_offset - row.base_offset,
                        state.last_timestamp if last else row.timestamp,
                        state.coordinator_epoch,
                        state.transaction_start if last else -1,
                    )
                )
        yield b"".join(rows)


def decode(data: bytes) -> ProducerStates:
    states = ProducerStates()
    try:
        version, crc = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except StructError:
        raise CorruptSnapshot(f"{len(data)} bytes are too few") from None
    if version != VERSION:
        raise CorruptSnapshot(f"version is {version}, {VERSION} expected")
    if crc32c(memoryview(data)[_HEAD.size :]) != crc:
        raise CorruptSnapshot("the checksum does not fit")
    if count < 0 or _ENTRIES_START + count * _ENTRY.size > len(data):
        raise CorruptSnapshot(f"{count} entries do not fit in {len(data)} bytes")
    body = memoryview(data)[_ENTRIES_START : _ENTRIES_START + count * _ENTRY.size]
    for producer, epoch, sequence, offset, delta, time, coordinator, txn in _ENTRY.iter_unpack(
        body
    ):
        state = states.entries.get(producer)
        if state is None or state.epoch != epoch:
            state = states.entries[producer] = ProducerState(producer, epoch)
        if offset >= 0:
            base_sequence = (sequence - delta) & SEQUENCE_MASK
            batch = Remembered(base_sequence, sequence, offset - delta, offset, time)
            state.batches = (*state.batches[1 - WINDOW :], batch)
            state.last_sequence = sequence
        state.last_timestamp = time
        state.coordinator_epoch = coordinator
        state.transaction_start = txn
    states.find_open()
    return states


class SnapshotWrite:
    """Snapshots to encode and write; `run` may go in any thread, and again after an OSError."""

    __slots__ = ("_disk", "snapshots")

    def __init__(self, disk: Disk, snapshots: list[tuple[int, str, Captured]]) -> None:
        self._disk = disk
        self.snapshots = snapshots  # offset, path, producers

    def run(self) -> None:
        """Not synced here: a flush syncs the files under their own names."""
        for _, path, captured in self.snapshots:
            _write(self._disk, path + TEMPORARY_SUFFIX, captured)


def _write(disk: Disk, path: str, captured: Captured) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        entries = bytearray()
        for some in _encoded_entries(captured):
            file.write(_ENTRIES_START + len(entries), some)
            entries += some
        file.write(0, _encoded_start(entries))
    finally:
        file.close()


class ProducerSnapshots:
    """The snapshot files of one log, by the offset they belong to."""

    __slots__ = ("_disk", "_path", "offsets", "pending", "unsynced")

    def __init__(self, disk: Disk, path: str, offsets: list[int]) -> None:
        self._disk = disk
        self._path = path
        self.offsets = sorted(offsets)
        self.unsynced: list[int] = []
        self.pending: dict[int, Captured] = {}  # captured, and not in a file yet

    @property
    def durable_below(self) -> int:
        """Snapshots from this offset on may not be on disk."""
        return min((*self.pending, *self.unsynced), default=INT64_MAX)

    def path(self, offset: int) -> str:
        return f"{self._path}/{offset:020d}{SUFFIX}"

    def renamed(self, path: str) -> None:
        self._path = path

    def capture(self, states: ProducerStates, offset: int) -> None:
        """Remember the producers as they are now, for a file that is written later."""
        if len(self.pending) >= PENDING_MAX:
            self.write(states, offset)
        else:
            self.pending[offset] = states.capture()

    def pending_write(self) -> SnapshotWrite | None:
        if not self.pending:
            return None
        due = [(offset, self.path(offset), each) for offset, each in self.pending.items()]
        return SnapshotWrite(self._disk, due)

    def publish(self, work: SnapshotWrite) -> bool:
        """Give its files their names, but for those that are no longer wanted; False if none is."""
        published = False
        for offset, path, captured in work.snapshots:
            if self.pending.get(offset) is captured:
                self._disk.rename(path + TEMPORARY_SUFFIX, path)
                self._add(offset)
                published = True
            else:
                self._disk.remove(path + TEMPORARY_SUFFIX)
        return published

    def write(self, states: ProducerStates, offset: int) -> None:
        """Now. Not synced here: a torn snapshot fails its checksum, and a flush syncs it."""
        _write(self._disk, self.path(offset), states.entries)
        self._add(offset)

    def _add(self, offset: int) -> None:
        self.pending.pop(offset, None)
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()
        if offset not in self.unsynced:
            self.unsynced.append(offset)

    def load_newest(
        self, offset_max: int, findings: list[RecoveryFinding]
    ) -> tuple[ProducerStates, int]:
        """The newest good snapshot not above `offset_max`, and its offset; else (empty, -1)."""
        for offset in sorted({*self.offsets, *self.pending}, reverse=True):
            if offset > offset_max:
                continue
            if offset in self.pending:
                return ProducerStates.of(self.pending[offset]), offset
            try:
                return decode(self._disk.read_file(self.path(offset))), offset
            except (CorruptSnapshot, FileNotFoundError) as error:
                what = f"bad snapshot: {error}"
                findings.append(RecoveryFinding(self.path(offset), what, "removed"))
                self.remove(offset)
        return ProducerStates(), -1

    def remove(self, offset: int) -> None:
        self._disk.remove(self.path(offset))
        self.forget([offset])

    def remove_above(self, offset_max: int) -> bool:
        """True if a file was removed."""
        self.forget([offset for offset in self.pending if offset > offset_max])
        removed = [offset for offset in self.offsets if offset > offset_max]
        for offset in removed:
            self.remove(offset)
        return bool(removed)

    def paths_of(self, offsets: list[int]) -> list[str]:
        """The files among these, for the caller to remove; `forget` them then."""
        return [self.path(offset) for offset in self.offsets if offset in offsets]

    def forget(self, offsets: list[int]) -> None:
        self.offsets = [offset for offset in self.offsets if offset not in offsets]
        self.unsynced = [offset for offset in self.unsynced if offset not in offsets]
        for offset in offsets:
            self.pending.pop(offset, None)

    def forget_below(self, offset_min: int) -> list[str]:
        """The paths of those below, for the caller to remove."""
        paths = [self.path(offset) for offset in self.offsets if offset < offset_min]
        self.forget([offset for offset in (*self.offsets, *self.pending) if offset < offset_min])
        return paths
