# cython: annotation_typing=False, infer_types=False
"""The loop that writes single records, one after the other.

In: fields of records. Out: the bytes of a batch after its header, not compressed.
Always: offsets increase; a record that is refused leaves no byte in the buffer.
Not here: reading them (record_loops.py), batches as a whole (records.py).

This is plain Python. If a compiler is available, Cython compiles this file with the types in
record_writer.pxd.
"""

from collections.abc import Iterable

from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.batch import NO_TIMESTAMP
from barnabas.wire.record_loops import Headers, Record

_INT32_MAX = 0x7FFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MIN = -_INT64_MAX - 1


class RecordWriter:
    """Encodes records one by one, after `room` bytes that are left free for a header."""

    buffer: bytearray
    count: int
    last_offset_delta: int  # of the last record, or -1
    base_timestamp: int  # of the first record, or -1
    max_timestamp: int  # the latest of any record, or -1

    def __init__(self, room: int, size_max: int = _INT32_MAX) -> None:
        self.buffer = bytearray(room)
        self.count = 0
        self.last_offset_delta = -1
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self._size_max = size_max
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes so far, the room in front included."""
        return len(self.buffer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
    ) -> bool:
        """Take the record, unless with it there would be more than `size_max` bytes.

        A first record is always accepted: the caller checks whether it is too large.
        """
        return self._append(self.last_offset_delta + 1, timestamp, key, value, headers)

    def extend(self, records: Iterable[Record], base_offset: int) -> None:
        """Take all of these, each at its own offset."""
        for record in records:
            delta = record.offset - base_offset
            if delta <= self.last_offset_delta:
                raise ValueError(
                    f"record at offset {record.offset} after offset"
                    f" {base_offset + self.last_offset_delta}"
                )
            self._append(delta, record.timestamp, record.key, record.value, record.headers)

    def close(self) -> bytearray:
        """All the bytes; no more records are accepted."""
        if self._closed:
            raise ValueError("the batch has been built: start another builder")
        self._closed = True
        return self.buffer

    def _append(
        self,
        delta: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> bool:
        if self._closed:
            raise ValueError("the batch has been built: start another builder")
        if delta > _INT32_MAX:
            raise ValueError(f"offset delta {delta} does not fit in a batch")
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise OverflowError(f"timestamp {timestamp} is over 64 bits")
        base = self.base_timestamp if self.count else timestamp
        if timestamp > _INT64_MAX + base if base < 0 else timestamp < _INT64_MIN + base:
            raise ValueError(f"timestamp {timestamp} is too far from the batch's first, {base}")
        start = len(self.buffer)
        try:
            _write_record(self.buffer, delta, timestamp - base, key, value, headers)
        except BaseException:
            del self.buffer[start:]
            raise
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif len(self.buffer) > self._size_max:
            del self.buffer[start:]
            return False
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.last_offset_delta = delta
        self.count += 1
        return True


def _write_record(
    buffer: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> None:
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    size = (
        1
        + _varint_size(timestamp_delta)
        + _varint_size(offset_delta)
        + _varint_size(key_size)
        + _varint_size(value_size)
        + _varint_size(len(headers))
    )
    if key_size > 0:
        size += key_size
    if value_size > 0:
        size += value_size
    names = None
    if headers:
        names = []
        for name, content in headers:
            encoded = name.encode()
            names.append(encoded)
            size += _varint_size(len(encoded)) + len(encoded)
            size += 1 if content is None else _varint_size(len(content)) + len(content)
    if size > _INT32_MAX:
        raise InvalidRequest(
            Code.MESSAGE_TOO_LARGE, f"record of {size} bytes: none can be over {_INT32_MAX}"
        )
    _write_varint(buffer, size)
    end = len(buffer) + size
    buffer.append(0)  # attributes, of which records have none
    _write_varint(buffer, timestamp_delta)
    _write_varint(buffer, offset_delta)
    _write_varint(buffer, key_size)
    if key is not None:
        buffer += key
    _write_varint(buffer, value_size)
    if value is not None:
        buffer += value
    _write_varint(buffer, len(headers))
    if names is not None:
        for i in range(len(names)):
            encoded = names[i]
            content = headers[i][1]
            _write_varint(buffer, len(encoded))
            buffer += encoded
            _write_varint(buffer, -1 if content is None else len(content))
            if content is not None:
                buffer += content
    if len(buffer) != end:
        raise TypeError("keys, values and header values must be bytes")


def _varint_size(number: int) -> int:
    if -64 <= number < 64:
        return 1
    rest = (number << 1) ^ (number >> 63)
    size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


def _write_varint(buffer: bytearray, number: int) -> None:
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        buffer.append(rest & 0x7F | 0x80)
        rest >>= 7
    buffer.append(rest)
