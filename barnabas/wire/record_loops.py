# cython: annotation_typing=False, infer_types=False
"""The loops that read single records: decode, look for a time, count.

In: the bytes of a batch after its header, decompressed.
Out: records, or Corrupt that says what is wrong and where.
Always: nothing is read past the end of a record; offsets increase.
Not here: writing them (record_writer.py), batches as a whole (records.py), their header
(batch.py), codecs (compression.py).

This is plain Python. If a compiler is available, Cython compiles this file with the types in
record_loops.pxd; `COMPILED` says which of the two is running.
"""

from barnabas.model.errors import Corrupt

COMPILED = not __file__.endswith(".py")

Headers = tuple[tuple[str, bytes | None], ...]

RECORD_SIZE_MIN = 7  # length, attributes, two deltas, two lengths and a count, of one byte each

_RECORD_SIZE_MIN = RECORD_SIZE_MIN
_HEADER_SIZE_MIN = 2  # of a record's header: the lengths of its key and its value
_INT32_MAX = 0x7FFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MIN = -_INT64_MAX - 1


class Record:
    """One record. It must not be changed after its creation; the compiled class prevents it."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.timestamp, self.key, self.value, self.headers))

    def __reduce__(self) -> tuple[object, ...]:
        return Record, (self.offset, self.timestamp, self.key, self.value, self.headers)

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r},"
            f" value={self.value!r}, headers={self.headers!r})"
        )


def decode_records(
    body: bytes,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    appended: bool,
) -> list[Record]:
    """`appended`: the broker set the time, and every record has the batch's."""
    data = body
    size = len(body)
    records = []
    previous = -1
    at = 0
    for _ in range(count):
        end, at = _record_end(data, at, size)
        delta, at = _varint64(data, at, end, "timestamp delta")
        offset_delta, at = _varint32(data, at, end, "offset delta")
        if not previous < offset_delta <= last_offset_delta:
            raise _bad_offset(offset_delta, previous, last_offset_delta, at)
        previous = offset_delta
        record = Record.__new__(Record)
        record.offset = base_offset + offset_delta
        record.timestamp = max_timestamp if appended else _time(base_timestamp, delta, at)

        length, at = _length(data, at, end, "key length")
        if length < 0:
            record.key = None
        else:
            record.key = data[at : at + length]
            at += length

        length, at = _length(data, at, end, "value length")
        if length < 0:
            record.value = None
        else:
            record.value = data[at : at + length]
            at += length

        if at < end and data[at] == 0:
            at += 1
            record.headers = ()
        else:
            record.headers, at = _read_headers(data, at, end)
        if at != end:
            raise _misfit("record", at, end)
        records.append(record)
    if at != size:
        raise _misfit("batch", at, size)
    return records


def _read_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = _header_count(data, at, end)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, at = _header_key_length(data, at, end)
        try:
            key = data[at : at + length].decode("utf-8")
        except UnicodeDecodeError as problem:
            raise Corrupt(f"header key at byte {at} of the records: {problem}") from None
        at += length
        length, at = _length(data, at, end, "header value length")
        if length < 0:
            headers.append((key, None))
        else:
            headers.append((key, data[at : at + length]))
            at += length
    return tuple(headers), at


def find_record(
    body: bytes,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    timestamp: int,
) -> tuple[int, int]:
    """Offset delta and timestamp of the first record not before `timestamp`; or -1 and -1."""
    data = body
    size = len(body)
    at = 0
    previous = -1
    for _ in range(count):
        end, at = _record_end(data, at, size)
        delta, at = _varint64(data, at, end, "timestamp delta")
        offset_delta, at = _varint32(data, at, end, "offset delta")
        if not previous < offset_delta <= last_offset_delta:
            raise _bad_offset(offset_delta, previous, last_offset_delta, at)
        previous = offset_delta
        found = _time(base_timestamp, delta, at)
        if found >= timestamp:
            return offset_delta, found
        at = end
    return -1, -1


def count_records(body: bytes) -> int:
    data = body
    size = len(body)
    at = 0
    count = 0
    while at < size:
        end, at = _record_end(data, at, size)
        _, at = _varint64(data, at, end, "timestamp delta")
        _, at = _varint32(data, at, end, "offset delta")
        length, at = _length(data, at, end, "key length")
        at += max(length, 0)
        length, at = _length(data, at, end, "value length")
        at += max(length, 0)
        header_count, at = _header_count(data, at, end)
        for _ in range(header_count):
            length, at = _header_key_length(data, at, end)
            at += length
            length, at = _length(data, at, end, "header value length")
            at += max(length, 0)
        if at != end:
            raise _misfit("record", at, end)
        count += 1
    return count


def _record_end(data: bytes, at: int, size: int) -> tuple[int, int]:
    """The end of the record at `at`, and the position of its first field after the attributes."""
    length, at = _varint32(data, at, size, "record length")
    if length < _RECORD_SIZE_MIN - 1 or length > size - at:
        raise Corrupt(
            f"record of {length} bytes at byte {at} of the records, where {size - at} are left"
        )
    return at + length, at + 1


def _length(data: bytes, at: int, end: int, what: str) -> tuple[int, int]:
    """A length that fits into the rest of the record, or -1 for null."""
    if at < end and data[at] < 0x80:  # nearly always; saves plain Python a call
        length = (data[at] >> 1) ^ -(data[at] & 1)
        at += 1
    else:
        length, at = _varint32(data, at, end, what)
    if length < -1 or length > end - at:
        raise Corrupt(
            f"{what} {length} at byte {at} of the records, where the record has {end - at} left"
        )
    return length, at


def _header_count(data: bytes, at: int, end: int) -> tuple[int, int]:
    count, at = _varint32(data, at, end, "header count")
    if count < 0 or count > (end - at) // _HEADER_SIZE_MIN:
        raise Corrupt(
            f"header count {count} at byte {at} of the records, where the record has"
            f" {end - at} bytes left"
        )
    return count, at


def _header_key_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    length, at = _length(data, at, end, "header key length")
    if length < 0:
        raise Corrupt(f"a header without a key at byte {at} of the records")
    return length, at


def _varint32(data: bytes, at: int, end: int, what: str) -> tuple[int, int]:
    if at < end and data[at] < 0x80:
        return (data[at] >> 1) ^ -(data[at] & 1), at + 1
    if end - at > 1 and data[at + 1] < 0x80:
        raw = data[at] & 0x7F | data[at + 1] << 7
        return (raw >> 1) ^ -(raw & 1), at + 2
    number, at = _varint64(data, at, end, what)
    if not -_INT32_MAX - 1 <= number <= _INT32_MAX:
        raise Corrupt(f"{what} before byte {at} of the records is over 32 bits")
    return number, at


def _varint64(data: bytes, at: int, end: int, what: str) -> tuple[int, int]:
    if at < end and data[at] < 0x80:
        return (data[at] >> 1) ^ -(data[at] & 1), at + 1
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
    if shift == 63:
        raise Corrupt(f"{what} before byte {at} of the records is over 64 bits")
    raise Corrupt(f"{what} cut short at byte {at} of the records")


def _time(base: int, delta: int, at: int) -> int:
    if base > _INT64_MAX - delta if delta > 0 else base < _INT64_MIN - delta:
        raise Corrupt(f"timestamp {base} + {delta} at byte {at} of the records is over 64 bits")
    return base + delta


def _bad_offset(delta: int, previous: int, last: int, at: int) -> Corrupt:
    return Corrupt(
        f"offset delta {delta} at byte {at} of the records, after {previous} in a batch whose last"
        f" is {last}"
    )


def _misfit(what: str, at: int, end: int) -> Corrupt:
    return Corrupt(f"{what} ends at byte {end} of the records, its fields at {at}")
