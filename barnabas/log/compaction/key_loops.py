# cython: annotation_typing=False, infer_types=False
"""The loops of compaction over single records, and their table of keys.

In: the bytes of records, decompressed. Out: which of them survive, as ranges of those bytes.
Always: the table holds a hash of 128 bits per key, computed with a secret, so that no client can
choose two keys with the same hash; its memory is bounded, and it reports when it is full.
Not here: batches, files and what to do about a full table (compaction.py).

This is plain Python. If a compiler is available, Cython compiles this file with the types in
key_loops.pxd; `COMPILED` says which of the two is running.
"""

from collections.abc import Callable

from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer

COMPILED = not __file__.endswith(".py")

SLOT_BYTES = 24
LOAD_MAX = 0.75  # beyond that, probes grow long
RECORD_SIZE_MIN = 6  # behind its length: attributes, two deltas, two lengths and a count

_MASK = 0xFFFF_FFFF_FFFF_FFFF
# What SipHash starts from, by name: a literal of this size would be a Python object in C.
_START_0 = 0x736F6D6570736575
_START_1 = 0x646F72616E646F6D ^ 0xEE
_START_2 = 0x6C7967656E657261
_START_3 = 0x7465646279746573
_RECORD_SIZE_MIN = RECORD_SIZE_MIN
_NO_TIMESTAMP = -1


class OffsetMap:
    """The last offset of each key, in a table that never grows."""

    count: int
    capacity: int

    def __init__(
        self,
        memory_max: int,
        secret: bytes,
        keys_max: int,
        zeros: Callable[[int], Buffer] = bytearray,
    ) -> None:
        """No more memory than `keys_max` keys need, and no more than `memory_max` bytes.

        `zeros` allocates it: lookups jump at random, which is cheaper with large pages."""
        slots = max(8, min(memory_max // SLOT_BYTES, int(keys_max / LOAD_MAX) + 1))
        self._slots = slots
        self._table = memoryview(zeros(slots * SLOT_BYTES)).cast("B").cast("Q")
        self.capacity = int(slots * LOAD_MAX)
        self.count = 0
        self._k0 = int.from_bytes(secret[:8], "little")
        self._k1 = int.from_bytes(secret[8:16], "little")
        self._low = 0
        self._high = 0
        self._hashes = memoryview(bytearray(16)).cast("Q")  # of the current batch
        self._seen = 0  # or a compiler would leave out what is looked at for no other purpose

    def add(
        self, data: bytes, at: int, size: int, count: int, base_offset: int, first_offset: int
    ) -> bool:
        """The records of a batch from `first_offset` on; False if they do not all fit."""
        octets = data
        self._hash_all(octets, at, size, count)
        for number in range(count):
            end, at = _record_end(octets, at, size)
            _, at = _varint(octets, at, end)
            delta, at = _varint(octets, at, end)
            length, at = _varint(octets, at, end)
            if length >= 0 and base_offset + delta >= first_offset:
                low = self._hashes[number * 2]
                high = self._hashes[number * 2 + 1]
                slot = self._find(low, high)
                if self._table[slot + 2] == 0:
                    if self.count >= self.capacity:
                        return False
                    self.count += 1
                    self._table[slot] = low
                    self._table[slot + 1] = high
                self._table[slot + 2] = base_offset + delta + 1
            at = end
        return True

    def get(self, key: bytes) -> int:
        """The last offset of a key, or -1."""
        octets = key
        self._hash(octets, 0, len(key))
        slot = self._find(self._low, self._high)
        return int(self._table[slot + 2]) - 1

    def survey(
        self,
        data: bytes,
        at: int,
        size: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        latest_offset: int,
        drop_tombstones: bool,
    ) -> tuple[int, int, int, int, list[int]]:
        """Which records of a batch survive, if the table knows all up to `latest_offset`.

        How many, how many of them are tombstones, their largest timestamp, how many records had
        no key, and the ranges of bytes to keep: start and end in turn.
        """
        octets = data
        kept = tombstones = keyless = 0
        largest = -1
        runs: list[int] = []
        run_start = run_end = -1
        self._hash_all(octets, at, size, count)
        for number in range(count):
            start = at
            end, at = _record_end(octets, at, size)
            time_delta, at = _varint(octets, at, end)
            delta, at = _varint(octets, at, end)
            length, at = _varint(octets, at, end)
            offset = base_offset + delta
            if length > 0:
                at += length
            value_length, at = _varint(octets, at, end)
            keep = True
            if offset <= latest_offset:
                if length < 0:
                    keyless += 1
                    keep = False
                else:
                    slot = self._find(self._hashes[number * 2], self._hashes[number * 2 + 1])
                    found = self._table[slot + 2]  # one more than the offset; 0: none
                    keep = offset >= found - 1 and (value_length >= 0 or not drop_tombstones)
            at = end
            if not keep:
                continue
            kept += 1
            if value_length < 0:
                tombstones += 1
            largest = max(largest, base_timestamp + time_delta)
            if start != run_end:
                if run_end >= 0:
                    runs.append(run_start)
                    runs.append(run_end)
                run_start = start
            run_end = end
        if run_end >= 0:
            runs.append(run_start)
            runs.append(run_end)
        if at != size:
            raise _torn(at)
        return kept, tombstones, largest, keyless, runs

    def _hash_all(self, octets: bytes, at: int, size: int, count: int) -> None:
        """Hash the key of each record, and touch its place in the table.

        Each place is a cache miss. Touched one right after the other, the misses overlap.
        """
        if count > (size - at) // _RECORD_SIZE_MIN:
            raise _torn(at)
        if count * 2 > len(self._hashes):
            self._hashes = memoryview(bytearray(count * 16)).cast("Q")
        seen = 0
        for number in range(count):
            end, at = _record_end(octets, at, size)
            _, at = _varint(octets, at, end)
            _, at = _varint(octets, at, end)
            length, at = _varint(octets, at, end)
            if length > end - at:
                raise _torn(at)
            if length >= 0:
                self._hash(octets, at, length)
                self._hashes[number * 2] = self._low
                self._hashes[number * 2 + 1] = self._high
                seen ^= self._table[self._low % self._slots * 3 + 2]
            at = end
        self._seen = seen

    def _find(self, low: int, high: int) -> int:
        """The position in the table of a key with this hash, whether it is there or not."""
        table = self._table
        slots = self._slots
        slot = low % slots
        while True:
            place = slot * 3
            if table[place + 2] == 0:
                return place
            if table[place] == low and table[place + 1] == high:
                return place
            slot += 1
            if slot == slots:
                slot = 0

    def _hash(self, octets: bytes, at: int, length: int) -> None:
        """SipHash-1-3 with 128 bits, left in `_low` and `_high`."""
        v0 = self._k0 ^ _START_0
        v1 = self._k1 ^ _START_1
        v2 = self._k0 ^ _START_2
        v3 = self._k1 ^ _START_3
        left = length
        while left >= 0:
            if left >= 8:
                word = _word(octets, at, 8)
                at += 8
            else:
                word = _word(octets, at, left) | (length & 0xFF) << 56
            left -= 8
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
        v2 ^= 0xEE
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        self._low = v0 ^ v1 ^ v2 ^ v3
        v1 ^= 0xDD
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        self._high = v0 ^ v1 ^ v2 ^ v3


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK
    v1 = ((v1 << 13) | (v1 >> 51)) & _MASK
    v1 ^= v0
    v0 = ((v0 << 32) | (v0 >> 32)) & _MASK
    v2 = (v2 + v3) & _MASK
    v3 = ((v3 << 16) | (v3 >> 48)) & _MASK
    v3 ^= v2
    v0 = (v0 + v3) & _MASK
    v3 = ((v3 << 21) | (v3 >> 43)) & _MASK
    v3 ^= v0
    v2 = (v2 + v1) & _MASK
    v1 = ((v1 << 17) | (v1 >> 47)) & _MASK
    v1 ^= v2
    v2 = ((v2 << 32) | (v2 >> 32)) & _MASK
    return v0, v1, v2, v3


def _word(octets: bytes, at: int, length: int) -> int:
    """Up to eight bytes as a number, the lowest first."""
    word = 0
    shift = 0
    for i in range(at, at + length):
        byte = octets[i]
        word |= byte << shift
        shift += 8
    return word


def invalid_records(
    data: bytes,
    at: int,
    size: int,
    count: int,
    keyed: bool,
    base_timestamp: int,
    time_min: int,
    time_max: int,
    found_max: int,
) -> list[tuple[int, bool, int]]:
    """The first records that have no key though they must (`keyed`), or whose timestamp is out of
    range: their number in the batch, whether they have an allowed key, and their timestamp."""
    octets = data
    found: list[tuple[int, bool, int]] = []
    for number in range(count):
        end, at = _record_end(octets, at, size)
        delta, at = _varint(octets, at, end)
        _, at = _varint(octets, at, end)
        length, at = _varint(octets, at, end)
        time = base_timestamp + delta
        if keyed and length < 0:
            found.append((number, False, time))
        elif (time < time_min and time != _NO_TIMESTAMP) or time > time_max:
            found.append((number, True, time))
        if len(found) >= found_max:
            break
        at = end
    return found


def rebased(data: bytes, runs: list[int], shift: int) -> bytearray:
    """The records in `runs`, with `shift` added to each timestamp delta."""
    octets = data
    out = bytearray()
    for number in range(0, len(runs), 2):
        at = runs[number]
        size = runs[number + 1]
        while at < size:
            end, at = _record_end(octets, at, size)
            time_at = at
            delta, at = _varint(octets, at, end)
            moved = delta + shift
            _write_varint(out, end - time_at + 1 - (at - time_at) + _varint_size(moved))
            out += data[time_at - 1 : time_at]
            _write_varint(out, moved)
            out += data[at:end]
            at = end
    return out


def _record_end(octets: bytes, at: int, size: int) -> tuple[int, int]:
    """The end of the record at `at`, and the position of its first field after the attributes."""
    length, at = _varint(octets, at, size)
    if length < _RECORD_SIZE_MIN or length > size - at:
        raise _torn(at)
    return at + length, at + 1


def _varint(octets: bytes, at: int, end: int) -> tuple[int, int]:
    raw = 0
    shift = 0
    while at < end and shift < 64:
        byte = octets[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _MASK
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    raise _torn(at)


def _varint_size(number: int) -> int:
    rest = ((number << 1) ^ (number >> 63)) & _MASK
    size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


def _write_varint(buffer: bytearray, number: int) -> None:
    rest = ((number << 1) ^ (number >> 63)) & _MASK
    while rest > 0x7F:
        buffer.append(rest & 0x7F | 0x80)
        rest >>= 7
    buffer.append(rest)


def _torn(at: int) -> Corrupt:
    return Corrupt(f"the records of a batch do not add up at byte {at}")
