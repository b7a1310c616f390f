# cython: annotation_typing=False, infer_types=False, boundscheck=False, wraparound=False
# ruff: noqa: F821
"""Decodes the records of batches into columns, laid out as Arrow lays them out.

In: the bytes of a batch after its header, decompressed, and the range of offsets wanted.
Out: rows in growing buffers: ends of values, their bytes, a bit for each that is not null.
Always: no object is created for a record; nothing is read past the end of a record;
a batch that does not decode leaves the rows as they were.
Not here: batches as a whole (records.py), Arrow itself (client/consumer/arrow.py).

Plain Python, compiled if a compiler is available, with the types in columns.pxd. The loop only
detects that something is wrong; `decode_records`, on the same bytes, reports what it is.
"""

from array import array
from collections.abc import Callable

from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer
from barnabas.wire.record_loops import decode_records

COMPILED = not __file__.endswith(".py")

_COMPILED = COMPILED
# Inline functions of columns.pxd: only there when compiled.
_resize: Callable[[bytearray, int], None]
_copy_memory: Callable[[bytearray, int, Buffer, int, int], None]
_first: Callable[[Buffer], Buffer]

_BAD = -1  # where a number ends that does not fit, or is cut short
_BYTES_MAX = 0x7FFF_FFFF  # of one column: the ends of values are 32 bits wide
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MIN = -_INT64_MAX - 1
_RECORD_SIZE_MIN = 7


class Binary:
    """A growing column of bytes: value i lies between ends[i] and ends[i + 1]."""

    ends: "array[int]"
    content: bytearray
    valid: bytearray  # a bit for each value, the lowest first
    nulls: int  # not counted in the columns of headers

    def __init__(self) -> None:
        self.ends = array("i", [0])
        self.content = bytearray()
        self.valid = bytearray()
        self.nulls = 0


class Columns:
    """Rows of records. `time_scale` is multiplied with each timestamp, 1000 for microseconds."""

    rows: int
    header_rows: int  # headers of all rows together
    offsets: "array[int]"
    timestamps: "array[int]"
    keys: Binary
    values: Binary
    header_ends: "array[int]"  # of the rows, in the two columns below
    header_valid: bytearray  # a bit for each row that has headers
    header_keys: Binary
    header_values: Binary

    def __init__(self, headers: bool = False, time_scale: int = 1) -> None:
        self.rows = 0
        self.offsets = array("q")
        self.timestamps = array("q")
        self.keys = Binary()
        self.values = Binary()
        self.header_ends = array("i", [0])
        self.header_valid = bytearray()
        self.header_keys = Binary()
        self.header_values = Binary()
        self._with_headers = headers
        self._time_scale = time_scale
        self._time_max = _INT64_MAX // time_scale
        self.header_rows = 0

    @property
    def size(self) -> int:
        """Bytes in use, roughly."""
        size = self.rows * 24 + self.keys.ends[self.rows] + self.values.ends[self.rows]
        if self.header_rows:
            size += self.header_rows * 8 + self.header_keys.ends[self.header_rows]
            size += self.header_values.ends[self.header_rows]
        return size

    def clear(self) -> bool:
        """Drop the rows and keep the memory. The caller must no longer use the rows."""
        columns = (self.keys, self.values, self.header_keys, self.header_values)
        parts = [self.offsets, self.timestamps, self.header_ends]
        parts += [column.ends for column in columns]
        views = [column.content for column in columns] + [column.valid for column in columns]
        views.append(self.header_valid)
        try:
            for numbers in parts:
                numbers.append(0)
            for content in views:
                content.append(0)
        except BufferError:
            return False
        self.rows = 0
        self.header_rows = 0
        self.keys.nulls = self.values.nulls = 0
        return True

    def append(
        self,
        body: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        appended: bool,
        start: int,
        stop: int,
    ) -> int:
        """Add the records from `start` to before `stop`; returns how many. Corrupt: none was added.

        `appended`: the broker set the time, and every record has the batch's.
        """
        if self.values.ends[self.rows] + len(body) > _BYTES_MAX:
            raise ValueError("a column holds 2 GiB at most: take the rows so far first")
        if self.keys.ends[self.rows] + len(body) > _BYTES_MAX:
            raise ValueError("a column holds 2 GiB at most: take the rows so far first")
        _reserve(self.offsets, self.rows + count)
        _reserve(self.timestamps, self.rows + count)
        _reserve_values(self.keys, self.rows + count)
        _reserve_values(self.values, self.rows + count)
        if self._with_headers:
            _reserve(self.header_ends, self.rows + count + 1)
            _reserve_bits(self.header_valid, self.rows + count)
        added = self._decode(
            body,
            count,
            base_offset,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            appended,
            start,
            stop,
        )
        if added < 0:
            decode_records(
                bytes(body),
                count,
                base_offset,
                last_offset_delta,
                base_timestamp,
                max_timestamp,
                appended,
            )
            raise Corrupt(f"the records of the batch at offset {base_offset} do not decode")
        self.rows += added
        return added

    def _decode(
        self,
        body: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        appended: bool,
        start: int,
        stop: int,
    ) -> int:
        """How many rows were added after the existing ones; -1 if the bytes are not records."""
        view = body
        if _COMPILED:  # noqa: SIM108 - one is a pointer
            data = _first(view)
        else:
            data = body
        size = len(body)
        offsets = self.offsets
        timestamps = self.timestamps
        keys = self.keys
        values = self.values
        key_ends = keys.ends
        value_ends = values.ends
        key_bytes = keys.content
        value_bytes = values.content
        key_bits = keys.valid
        value_bits = values.valid
        key_room = len(keys.content)
        value_room = len(values.content)
        row = self.rows
        key_at = key_ends[row]
        value_at = value_ends[row]
        key_nulls = 0
        value_nulls = 0
        header_rows = self.header_rows
        scale = self._time_scale
        latest = self._time_max
        previous = -1
        at = 0
        for _ in range(count):
            # length, attributes, timestamp delta
            number, at = _varint(data, at, size)
            if at == _BAD or number < _RECORD_SIZE_MIN - 1 or number > size - at:
                return -1
            end = at + number
            delta, at = _varint(data, at + 1, end)
            if at == _BAD:
                return -1
            number, at = _varint(data, at, end)
            if at == _BAD or number <= previous or number > last_offset_delta:
                return -1
            previous = number
            offset = base_offset + number
            if offset < start:
                at = end
                continue
            if offset >= stop:
                at = size
                break
            offsets[row] = offset
            if appended:
                time = max_timestamp
            else:
                if delta > 0:
                    if base_timestamp > _INT64_MAX - delta:
                        return -1
                elif base_timestamp < _INT64_MIN - delta:
                    return -1
                time = base_timestamp + delta
            # Past the year 294246 microseconds no longer fit: such a time is the last there is.
            if time > latest:
                time = latest
            elif time < -latest:
                time = -latest
            timestamps[row] = time * scale

            number, at = _varint(data, at, end)
            if at == _BAD or number < -1 or number > end - at:
                return -1
            if number < 0:
                key_bits[row >> 3] &= ~(1 << (row & 7)) & 0xFF
                key_nulls += 1
            else:
                key_bits[row >> 3] |= 1 << (row & 7)
                if key_at + number > key_room:
                    key_room = _grow(keys.content, key_at + number)
                    key_bytes = keys.content
                _copy(key_bytes, key_at, data, at, number)
                key_at += number
                at += number
            key_ends[row + 1] = key_at

            number, at = _varint(data, at, end)
            if at == _BAD or number < -1 or number > end - at:
                return -1
            if number < 0:
                value_bits[row >> 3] &= ~(1 << (row & 7)) & 0xFF
                value_nulls += 1
            else:
                value_bits[row >> 3] |= 1 << (row & 7)
                if value_at + number > value_room:
                    value_room = _grow(values.content, value_at + number)
                    value_bytes = values.content
                _copy(value_bytes, value_at, data, at, number)
                value_at += number
                at += number
            value_ends[row + 1] = value_at

            if self._with_headers:
                header_rows = self._decode_headers(data, at, end, row, header_rows)
                if header_rows < 0:
                    return -1
            row += 1
            at = end
        if at != size:
            return -1
        keys.nulls += key_nulls
        values.nulls += value_nulls
        self.header_rows = header_rows
        return row - self.rows

    def _decode_headers(self, data: Buffer, at: int, end: int, row: int, header_row: int) -> int:
        """Add the headers of a record after the first `header_row`; returns their new number."""
        count, at = _varint(data, at, end)
        if at == _BAD or count < 0 or count > (end - at) // 2:
            return -1
        if count == 0:
            self.header_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
        else:
            self.header_valid[row >> 3] |= 1 << (row & 7)
            names = self.header_keys
            contents = self.header_values
            _reserve_values(names, header_row + count)
            _reserve_values(contents, header_row + count)
            for _ in range(count):
                number, at = _varint(data, at, end)
                if at == _BAD or number < 0 or number > end - at:
                    return -1
                _put(names, header_row, data, at, number)
                at += number
                number, at = _varint(data, at, end)
                if at == _BAD or number < -1 or number > end - at:
                    return -1
                _put(contents, header_row, data, at, number)
                if number > 0:
                    at += number
                header_row += 1
        if at != end:
            return -1
        self.header_ends[row + 1] = header_row
        return header_row


def _put(column: Binary, row: int, data: Buffer, at: int, length: int) -> None:
    used = column.ends[row]
    if length < 0:
        column.valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
        length = 0
    else:
        column.valid[row >> 3] |= 1 << (row & 7)
    if used + length > _BYTES_MAX:
        raise ValueError("a column holds 2 GiB at most: take the rows so far first")
    if used + length > len(column.content):
        _grow(column.content, used + length)
    content = column.content
    _copy(content, used, data, at, length)
    column.ends[row + 1] = used + length


def _reserve(numbers: "array[int]", count: int) -> None:
    """Reserves room for `count`, at least twice as much as before, so that growing is cheap."""
    if count > len(numbers):
        wanted = max(count, 2 * len(numbers))
        numbers.frombytes(bytes((wanted - len(numbers)) * numbers.itemsize))


def _reserve_values(column: Binary, count: int) -> None:
    _reserve(column.ends, count + 1)
    _reserve_bits(column.valid, count)


def _reserve_bits(bits: bytearray, count: int) -> None:
    if count > len(bits) * 8:
        wanted = max((count + 7) // 8, 2 * len(bits))
        bits.extend(bytes(wanted - len(bits)))


def _grow(content: bytearray, size: int) -> int:
    wanted = max(size, 2 * len(content), 4096)
    if _COMPILED:
        _resize(content, wanted)
    else:
        content.extend(bytes(wanted - len(content)))
    return wanted


def _copy(target: bytearray, to: int, source: Buffer, start: int, length: int) -> None:
    if _COMPILED:
        _copy_memory(target, to, source, start, length)
    else:
        _copy_slice(target, to, source, start, length)


def _copy_slice(target: bytearray, to: int, source: Buffer, start: int, length: int) -> None:
    target[to : to + length] = source[start : start + length]


def _varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The number at `at` and where it ends: _BAD if that is past `end`, or it is over 64 bits."""
    if at < end:
        raw = data[at]
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        if end - at > 1:
            second = data[at + 1]
            if second < 0x80:
                raw = raw & 0x7F | second << 7
                return (raw >> 1) ^ -(raw & 1), at + 2
    return _long_varint(data, at, end)


def _long_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    raw = 0
    shift = 0
    while at < end:
        byte = data[at]
        at += 1
        if byte < 0x80:
            if shift == 63 and byte > 1:
                break
            raw |= byte << shift
            return (raw >> 1) ^ -(raw & 1), at
        if shift == 63:
            break
        raw |= (byte & 0x7F) << shift
        shift += 7
    return 0, _BAD
