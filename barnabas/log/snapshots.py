"""Producer state as files, in Kafka's `.snapshot` format.

In: states and the offset they stand for. Out: files, and states read back.
Always: a snapshot that fails its checksum is never used.
Kafka keeps only the last batch of each producer here, so a Kafka broker that restarts
no longer knows the older repeats. We write one entry per remembered batch, oldest
first: Kafka reads such a file too (the last entry of a producer wins), and we get
the whole window back.
"""

from struct import Struct
from struct import error as StructError

from barnabas.log.findings import Finding
from barnabas.log.producers import WINDOW, ProducerState, ProducerStates, Remembered
from barnabas.model.ports import Disk
from barnabas.wire.checksum import crc32c

SUFFIX = ".snapshot"
VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")  # id, epoch, last sequence, last offset, delta, time, coordinator, txn
_SEQUENCE_MASK = 0x7FFF_FFFF


class CorruptSnapshot(Exception):
    """The file is not a snapshot that was written whole."""


def encode(states: ProducerStates) -> bytes:
    entries = bytearray()
    count = 0
    for state in states.entries.values():
        rows: list[Remembered] = list(state.batches) or [Remembered(-1, -1, -1, -1, -1)]
        for row in rows:
            last = row is rows[-1]
            entries += _ENTRY.pack(
                state.producer_id,
                state.epoch,
                row.last_sequence,
                row.last_offset,
                row.last_offset - row.base_offset,
                state.last_timestamp if last else row.timestamp,
                state.coordinator_epoch,
                state.transaction_start if last else -1,
            )
            count += 1
    body = _COUNT.pack(count) + entries
    return _HEAD.pack(VERSION, crc32c(body)) + body


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
    start = _HEAD.size + _COUNT.size
    if count < 0 or start + count * _ENTRY.size > len(data):
        raise CorruptSnapshot(f"{count} entries do not fit in {len(data)} bytes")
    body = memoryview(data)[start : start + count * _ENTRY.size]
    for producer, epoch, sequence, offset, delta, time, coordinator, txn in _ENTRY.iter_unpack(
        body
    ):
        state = states.entries.get(producer)
        if state is None or state.epoch != epoch:
            state = states.entries[producer] = ProducerState(producer, epoch)
        if offset >= 0:
            base_sequence = (sequence - delta) & _SEQUENCE_MASK
            batch = Remembered(base_sequence, sequence, offset - delta, offset, time)
            state.batches = (*state.batches[1 - WINDOW :], batch)
            state.last_sequence = sequence
        state.last_timestamp = time
        state.coordinator_epoch = coordinator
        state.transaction_start = txn
    return states


class Snapshots:
    """The snapshot files of one log, by the offset they stand for."""

    __slots__ = ("_disk", "_path", "offsets", "unsynced")

    def __init__(self, disk: Disk, path: str, offsets: list[int]) -> None:
        self._disk = disk
        self._path = path
        self.offsets = sorted(offsets)
        self.unsynced: list[int] = []

    def path(self, offset: int) -> str:
        return f"{self._path}/{offset:020d}{SUFFIX}"

    def renamed(self, path: str) -> None:
        self._path = path

    def write(self, states: ProducerStates, offset: int) -> None:
        """Not synced here: a torn snapshot is seen by its checksum, and a flush syncs it."""
        data = encode(states)
        file = self._disk.open(self.path(offset), create=True)
        try:
            file.truncate(0)
            file.write(0, data)
        finally:
            file.close()
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()
        self.unsynced.append(offset)

    def load_newest(self, offset_max: int, findings: list[Finding]) -> tuple[ProducerStates, int]:
        """The newest good snapshot not above `offset_max`, and its offset; else (empty, -1)."""
        for offset in reversed(self.offsets):
            if offset > offset_max:
                continue
            try:
                return decode(self._disk.read_file(self.path(offset))), offset
            except (CorruptSnapshot, FileNotFoundError) as error:
                findings.append(Finding(self.path(offset), f"bad snapshot: {error}", "removed"))
                self.remove(offset)
        return ProducerStates(), -1

    def remove(self, offset: int) -> None:
        self._disk.remove(self.path(offset))
        self.offsets = [other for other in self.offsets if other != offset]
        self.unsynced = [other for other in self.unsynced if other != offset]

    def remove_above(self, offset_max: int) -> bool:
        """True if any went."""
        doomed = [offset for offset in self.offsets if offset > offset_max]
        for offset in doomed:
            self.remove(offset)
        return bool(doomed)

    def paths_of(self, offsets: list[int]) -> list[str]:
        """Of those among these that there are, for somebody else to remove; then `forget` them."""
        return [self.path(offset) for offset in self.offsets if offset in offsets]

    def forget(self, offsets: list[int]) -> None:
        self.offsets = [offset for offset in self.offsets if offset not in offsets]
        self.unsynced = [offset for offset in self.unsynced if offset not in offsets]

    def forget_below(self, offset_min: int) -> list[str]:
        """The paths of those below, for somebody else to remove."""
        paths = [self.path(offset) for offset in self.offsets if offset < offset_min]
        self.offsets = [offset for offset in self.offsets if offset >= offset_min]
        self.unsynced = [offset for offset in self.unsynced if offset >= offset_min]
        return paths
