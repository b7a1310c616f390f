# cython: annotation_typing=False, infer_types=False, boundscheck=False, wraparound=False
# ruff: noqa: F821
"""Encodes records from columns in Arrow's layout into batches.

In: columns of keys, values, times, headers; which partition each row goes to.
Out: rows in the order of their partitions, and the records of batches behind room for a header.
Always: no object is created for a row; the rows of a partition keep their order.
Not here: the header of a batch (batch.py), Arrow itself, sending (pipeline/spark/writing.py).

Plain Python, compiled if a compiler is available, with the types in column_writer.pxd. The caller
must pass valid columns: ends rise, and are within the bytes.
"""

from array import array
from collections.abc import Callable

from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ports import Buffer

COMPILED = not __file__.endswith(".py")

_COMPILED = COMPILED
# An inline function of column_writer.pxd: only there when compiled.
_copy_memory: Callable[[bytearray, int, Buffer, int, int], None]

_RECORD_SIZE_MAX = 0x7FFF_FFFF
_MASK = 0xFFFF_FFFF
_MULTIPLIER = 0x5BD1_E995
_SEED = 0x9747_B28C


class Strings:
    """A column of bytes: value i lies between ends[i] and ends[i + 1]."""

    ends: "memoryview[int]"  # 32 bits each
    content: Buffer
    valid: Buffer  # a bit for each value, the lowest first; empty: none is null

    def __init__(self, ends: "memoryview[int]", content: Buffer, valid: Buffer = b"") -> None:
        self.ends = ends
        self.content = content
        self.valid = valid
        self.nulls = len(valid) > 0


class RowColumns:
    """The columns of one set of rows. A column that is None is null in every row."""

    def __init__(
        self,
        rows: int,
        keys: Strings | None,
        values: Strings | None,
        times: "array[int]",
        header_ends: "memoryview[int] | None" = None,
        header_keys: Strings | None = None,
        header_values: Strings | None = None,
    ) -> None:
        self.rows = rows
        self.keys = keys
        self.values = values
        self.times = times
        self.header_ends = header_ends
        self.header_keys = header_keys
        self.header_values = header_values

    def encode(
        self, order: "array[int]", first: int, last: int, room: int, size_max: int
    ) -> tuple[bytearray, int, int, int]:
        """Rows order[first:last], or as many as fit into `size_max` bytes, one at least.

        The bytes, how many rows they hold, and their first and latest time.
        """
        rows = order
        times = self.times
        base = times[rows[first]]
        latest = base
        size = room
        taken = 0
        for i in range(first, last):
            row = rows[i]
            record_size = self._size(row, taken, times[row] - base)
            if record_size > _RECORD_SIZE_MAX:
                raise InvalidRequest(
                    Code.MESSAGE_TOO_LARGE,
                    f"record of {record_size} bytes: none can be over {_RECORD_SIZE_MAX}",
                )
            whole = record_size + _varint_size(record_size)
            if taken and size + whole > size_max:
                break
            size += whole
            taken += 1
            latest = max(latest, times[row])
        buffer = bytearray(size)
        self._write(buffer, room, rows, first, taken, base)
        return buffer, taken, base, latest

    def _size(self, row: int, delta: int, time_delta: int) -> int:
        size = 2 + _varint_size(time_delta) + _varint_size(delta)
        size += _string_size(self.keys, row) + _string_size(self.values, row)
        if self.header_ends is None:
            return size
        begin, end = self.header_ends[row], self.header_ends[row + 1]
        size += _varint_size(end - begin) - 1
        for i in range(begin, end):
            size += _string_size(self.header_keys, i) + _string_size(self.header_values, i)
        return size

    def _write(
        self, buffer: bytearray, at: int, order: "array[int]", first: int, count: int, base: int
    ) -> None:
        target = buffer
        rows = order
        times = self.times
        for number in range(count):
            row = rows[first + number]
            time_delta = times[row] - base
            at = _put_varint(target, at, self._size(row, number, time_delta))
            target[at] = 0  # attributes, of which records have none
            at = _put_varint(target, at + 1, time_delta)
            at = _put_varint(target, at, number)
            at = _put_string(target, at, self.keys, row)
            at = _put_string(target, at, self.values, row)
            if self.header_ends is None:
                target[at] = 0
                at += 1
                continue
            begin, end = self.header_ends[row], self.header_ends[row + 1]
            at = _put_varint(target, at, end - begin)
            for i in range(begin, end):
                at = _put_string(target, at, self.header_keys, i)
                at = _put_string(target, at, self.header_values, i)


def choose(
    keys: Strings | None,
    rows: int,
    topics: "array[int]",
    counts: "array[int]",
    partitions: "array[int]",
    unkeyed: "array[int]",
) -> int:
    """Fill `partitions` where it is negative; returns the first row with an invalid partition, or
    -1.

    `topics`: of each row, as index into `counts`, of partitions, and `unkeyed`, of partitions for
    rows without a key. With a key, the hash of Java's default partitioner decides.
    """
    chosen = partitions
    for row in range(rows):
        topic = topics[row]
        if chosen[row] >= counts[topic]:
            return row
        if chosen[row] >= 0:
            continue
        if keys is None or _is_null(keys, row):
            chosen[row] = unkeyed[topic]
        else:
            hashed = _murmur2(keys.content, keys.ends[row], keys.ends[row + 1])
            chosen[row] = (hashed & 0x7FFF_FFFF) % counts[topic]
    return -1


def arrange(buckets: "array[int]", rows: int, ends: "array[int]") -> "array[int]":
    """Rows by their bucket, each bucket's in order. `ends` receives where each bucket ends."""
    numbers = buckets
    at = ends
    for row in range(rows):
        at[numbers[row] + 1] += 1
    for i in range(1, len(ends)):
        at[i] += at[i - 1]
    order = array("i", bytes(4 * rows))
    # at[i] is where bucket i begins; it moves to where the bucket ends.
    arranged = order
    for row in range(rows):
        arranged[at[numbers[row]]] = row
        at[numbers[row]] += 1
    return order


def _murmur2(content: Buffer, start: int, end: int) -> int:
    data = content
    length = end - start
    hashed = _SEED ^ length
    whole = start + (length & ~3)
    for at in range(start, whole, 4):
        word = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        word = word * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if end > whole:
        word = 0
        for at in range(end - 1, whole - 1, -1):
            word = word << 8 | data[at]
        hashed = (hashed ^ word) * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ (hashed >> 15)


def _is_null(column: Strings, row: int) -> bool:
    return column.nulls and not column.valid[row >> 3] >> (row & 7) & 1


def _string_size(column: Strings | None, row: int) -> int:
    if column is None or _is_null(column, row):
        return 1
    length = column.ends[row + 1] - column.ends[row]
    return _varint_size(length) + length


def _put_string(target: bytearray, at: int, column: Strings | None, row: int) -> int:
    if column is None or _is_null(column, row):
        target[at] = 1  # -1
        return at + 1
    start = column.ends[row]
    length = column.ends[row + 1] - start
    at = _put_varint(target, at, length)
    if length:
        _copy(target, at, column.content, start, length)
    return at + length


def _copy(target: bytearray, to: int, source: Buffer, start: int, length: int) -> None:
    if _COMPILED:
        _copy_memory(target, to, source, start, length)
    else:
        _copy_slice(target, to, source, start, length)


def _copy_slice(target: bytearray, to: int, source: Buffer, start: int, length: int) -> None:
    target[to : to + length] = source[start : start + length]


def _varint_size(number: int) -> int:
    if -64 <= number < 64:
        return 1
    rest = (number << 1) ^ (number >> 63)
    size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


def _put_varint(target: bytearray, at: int, number: int) -> int:
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        target[at] = rest & 0x7F | 0x80
        rest >>= 7
        at += 1
    target[at] = rest
    return at + 1
