# cython: annotation_typing=False, infer_types=False
"""Packs records into batches (magic 2) and reads them back.

In: records, or the bytes of one batch. Out: batches, records, or Corrupt that says what and where.
Always: nothing is read past the end of the record it belongs to; a batch holds as many records as
its header says, in the order of their offsets.
Not here: the batch header (batch.py), the codecs (compression.py), what a topic allows (log/).

The loops are plain Python. Where a compiler is at hand Cython compiles this very file with the
types in records.pxd; `COMPILED` says which of the two is running.
"""

from collections.abc import Iterable, Iterator

from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.model.ports import Buffer
from barnabas.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    read_header,
    write_header,
)
from barnabas.wire.compression import Codec, compress, decompress

COMPILED = not __file__.endswith(".py")

Headers = tuple[tuple[str, bytes | None], ...]

RECORDS_SIZE_MAX = 128 * 1024 * 1024  # of one batch, decompressed, unless the caller says otherwise
RECORD_SIZE_MIN = 7  # length, attributes, two deltas, two lengths and a count, of one byte each
HEADER_FIELD_SIZE_MIN = 2  # of a record's header: the lengths of its key and its value

_INT32_MAX = 0x7FFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MIN = -_INT64_MAX - 1


class Record:
    """One record. Not to be changed once made; compiled, it cannot be."""

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


class BatchBuilder:
    """Collects the records of one batch, encoded as they come; `build` may be called once."""

    def __init__(self, size_max: int = _INT32_MAX) -> None:
        self._buffer = bytearray(HEADER_SIZE)
        self._size_max = size_max
        self._last_delta = -1
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._built = False
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, not compressed."""
        return len(self._buffer)

    @property
    def base_timestamp(self) -> int:
        """Of the first record, or -1."""
        return self._base_timestamp

    @property
    def max_timestamp(self) -> int:
        """The latest of any record, or -1."""
        return self._max_timestamp

    def append(
        self, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int
    ) -> bool:
        """Take the record, unless with it the batch would be larger than `size_max`.

        An empty batch takes any record: whether that is too large is for the caller to say.
        """
        return self._append(self._last_delta + 1, timestamp, key, value, headers)

    def _append(
        self,
        delta: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> bool:
        if self._built:
            raise ValueError("the batch has been built: start another builder")
        if delta > _INT32_MAX:
            raise ValueError(f"offset delta {delta} does not fit in a batch")
        if self.count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        base = self._base_timestamp
        if timestamp > _INT64_MAX + base if base < 0 else timestamp < _INT64_MIN + base:
            raise ValueError(f"timestamp {timestamp} is too far from the batch's first, {base}")
        start = len(self._buffer)
        try:
            _write_record(self._buffer, delta, timestamp - base, key, value, headers)
        except BaseException:
            del self._buffer[start:]
            raise
        if len(self._buffer) > self._size_max and self.count > 0:
            del self._buffer[start:]
            return False
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._last_delta = delta
        self.count += 1
        return True

    def build(
        self,
        *,
        codec: Codec = Codec.NONE,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        log_append_time: int | None = None,
        leader_epoch: int = -1,
        last_offset_delta: int | None = None,
        level: int | None = None,
    ) -> bytearray:
        """The whole batch. `last_offset_delta` may be larger than the last record's, never less."""
        if self._built:
            raise ValueError("the batch has been built: start another builder")
        if last_offset_delta is None:
            last_offset_delta = max(self._last_delta, 0)
        elif not self._last_delta <= last_offset_delta <= _INT32_MAX:
            raise ValueError(
                f"last offset delta {last_offset_delta}, but there is a record at"
                f" {self._last_delta}"
            )
        self._built = True
        batch = self._buffer
        if codec is not Codec.NONE:
            with memoryview(batch) as view:
                packed = compress(codec, view[HEADER_SIZE:], level)
            batch = bytearray(HEADER_SIZE)
            batch += packed
        attributes = (
            codec
            | (LOG_APPEND_TIME if log_append_time is not None else 0)
            | (TRANSACTIONAL if transactional else 0)
            | (CONTROL if control else 0)
        )
        write_header(
            batch,
            BatchHeader(
                base_offset=base_offset,
                length=0,
                leader_epoch=leader_epoch,
                magic=0,
                crc=0,
                attributes=attributes,
                last_offset_delta=last_offset_delta,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp if log_append_time is None else log_append_time,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                record_count=self.count,
            ),
        )
        return batch


def encode_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
    leader_epoch: int = -1,
    last_offset_delta: int | None = None,
    level: int | None = None,
) -> bytearray:
    """One batch of records whose offsets rise from `base_offset` on, gaps allowed."""
    builder = BatchBuilder()
    _append_all(builder, records, base_offset)
    return builder.build(
        codec=codec,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        log_append_time=log_append_time,
        leader_epoch=leader_epoch,
        last_offset_delta=last_offset_delta,
        level=level,
    )


def decode_batch(
    view: Buffer, *, crc: bool = True, size_max: int = RECORDS_SIZE_MAX
) -> list[Record]:
    """The records of the batch that `view` starts with; `crc=False` trusts its checksum."""
    header = read_header(view)
    if crc:
        check_crc(view, header)
    body = records_of(view, header, size_max=size_max)
    return _decode(
        body,
        len(body),
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        bool(header.attributes & LOG_APPEND_TIME),
    )


def records_of(view: Buffer, header: BatchHeader, *, size_max: int = RECORDS_SIZE_MAX) -> bytes:
    """The bytes of the records of one batch, decompressed, their number plausible."""
    number = header.attributes & CODEC_MASK
    if number > Codec.ZSTD:
        raise Corrupt(f"batch is compressed with codec {number}; there are 0 to 4")
    with memoryview(view) as whole, whole[HEADER_SIZE : header.size] as packed:
        body = bytes(decompress(Codec(number), packed, size_max))
    count = header.record_count
    if not 0 <= count <= len(body) // RECORD_SIZE_MIN:
        raise Corrupt(f"batch header counts {count} records, but there are {len(body)} bytes")
    if not 0 <= header.base_offset <= _INT64_MAX - _INT32_MAX:
        raise Corrupt(f"batch has base offset {header.base_offset}")
    if count and header.last_offset_delta < count - 1:
        raise Corrupt(
            f"batch header counts {count} records, but its last offset delta is"
            f" {header.last_offset_delta}"
        )
    return body


def iter_batches(view: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every whole batch. A fetch response may end in a part of one, which is left out."""
    whole = memoryview(view)
    position = 0
    while position + LENGTH_OVERHEAD <= len(whole):
        length = int.from_bytes(whole[position + 8 : position + LENGTH_OVERHEAD], signed=True)
        if length > len(whole) - position - LENGTH_OVERHEAD:
            return
        header = read_header(whole, position)
        yield header, whole[position : position + header.size]
        position += header.size


def find_by_time(
    view: Buffer, timestamp: int, *, size_max: int = RECORDS_SIZE_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp of a batch's first record at or after `timestamp`."""
    header = read_header(view)
    if header.record_count == 0 or header.max_timestamp < timestamp:
        return None
    body = records_of(view, header, size_max=size_max)
    appended = bool(header.attributes & LOG_APPEND_TIME)
    delta, found = _find(
        body,
        len(body),
        header.record_count,
        header.last_offset_delta,
        header.base_timestamp,
        _INT64_MIN if appended else timestamp,
    )
    if delta < 0:
        return None
    return header.base_offset + delta, header.max_timestamp if appended else found


def count_records(body: Buffer) -> int:
    """How many records the bytes after a header hold, once decompressed."""
    data = bytes(body)
    return _count(data, len(data))


# --- loops; their types are in records.pxd ----------------------------------------------------


def _append_all(builder: BatchBuilder, records: Iterable[Record], base_offset: int) -> None:
    previous = -1
    for record in records:
        delta = record.offset - base_offset
        if delta <= previous:
            raise ValueError(
                f"record at offset {record.offset} after offset {base_offset + previous}"
            )
        builder._append(delta, record.timestamp, record.key, record.value, record.headers)
        previous = delta


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
    if headers:
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


def _decode(
    data: bytes,
    size: int,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    appended: bool,
) -> list[Record]:
    """`appended`: the broker set the time, and every record has the batch's."""
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


def _find(
    data: bytes,
    size: int,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    timestamp: int,
) -> tuple[int, int]:
    """Offset delta and timestamp of the first record not before `timestamp`; or -1 and -1."""
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


def _count(data: bytes, size: int) -> int:
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
    """Where the record at `at` ends, and where its first field behind the attributes is."""
    length, at = _varint32(data, at, size, "record length")
    if length < RECORD_SIZE_MIN - 1 or length > size - at:
        raise Corrupt(
            f"record of {length} bytes at byte {at} of the records, where {size - at} are left"
        )
    return at + length, at + 1


def _length(data: bytes, at: int, end: int, what: str) -> tuple[int, int]:
    """A length that fits in what is left of the record, or -1 for null."""
    length, at = _varint32(data, at, end, what)
    if length < -1 or length > end - at:
        raise Corrupt(
            f"{what} {length} at byte {at} of the records, where the record has {end - at} left"
        )
    return length, at


def _header_count(data: bytes, at: int, end: int) -> tuple[int, int]:
    count, at = _varint32(data, at, end, "header count")
    if count < 0 or count > (end - at) // HEADER_FIELD_SIZE_MIN:
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
    number, at = _varint64(data, at, end, what)
    if not -_INT32_MAX - 1 <= number <= _INT32_MAX:
        raise Corrupt(f"{what} before byte {at} of the records is over 32 bits")
    return number, at


def _varint64(data: bytes, at: int, end: int, what: str) -> tuple[int, int]:
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
