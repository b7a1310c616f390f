# cython: annotation_typing=False, infer_types=False
"""Messages, and the loop that creates them from a batch.

In: the bytes of a batch after its header, decompressed. Out: messages, or Corrupt.
Always: nothing is read past the end of a record; offsets increase; headers are decoded, and
checked, when they are first used.
Not here: the types of messages (message.py), whole batches (decoding.py).

This is plain Python. If a compiler is available, Cython compiles this file with the types in
message_loops.pxd.
"""

from typing import Any

from barnabas.model.errors import Corrupt

COMPILED = not __file__.endswith(".py")

if not COMPILED:
    # Compiled, it is in the .pxd, and no function of Python's could do it.
    globals()["_unwatched"] = lambda message: None

_RECORD_SIZE_MIN = 7
_INT32_MAX = 0x7FFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MIN = -_INT64_MAX - 1


class Message:
    """One record and its position. In the compiled class, only key and value can be set."""

    __slots__ = ("_packed", "_source", "key", "offset", "timestamp", "value")

    offset: int
    timestamp: int
    key: Any
    value: Any
    _packed: Any  # headers: bytes until they are asked for, then the tuple
    # what all messages of a batch share: topic, partition, batch, marks; in a share group also
    # the acquisition
    _source: Any

    def __init__(
        self,
        source: Any,
        offset: int,
        timestamp: int,
        key: Any,
        value: Any,
        headers: Any = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self._packed = headers
        self._source = source

    @property
    def topic(self) -> str:
        return self._source[0]  # type: ignore[no-any-return]

    @property
    def partition(self) -> int:
        return self._source[1]  # type: ignore[no-any-return]

    @property
    def batch(self) -> Any:
        """The header of its batch: leader epoch, producer, how the time was set."""
        return self._source[2]

    @property
    def marks(self) -> Any:
        """Of the partition, when this was fetched: start, last stable offset, high watermark."""
        return self._source[3]

    @property
    def acquisition(self) -> Any:
        """In a share group: the delivery count, and which partition of which session holds it."""
        return self._source[4] if len(self._source) > 4 else None

    @property
    def delivery_count(self) -> Any:
        """In a share group: how often it was delivered, this time included; otherwise None."""
        return self._source[4][0] if len(self._source) > 4 else None

    @property
    def leader_epoch(self) -> int:
        return self._source[2].leader_epoch  # type: ignore[no-any-return]

    @property
    def headers(self) -> Any:
        packed = self._packed
        if type(packed) is tuple:
            return packed
        self._packed = unpack_headers(packed)
        return self._packed

    def __repr__(self) -> str:
        return (
            f"Message({self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp},"
            f" key={self.key!r}, value={self.value!r})"
        )

    def __reduce__(self) -> tuple[object, ...]:
        fields = (self.offset, self.timestamp, self.key, self.value, self.headers)
        return Message, (self._source, *fields)

    @classmethod
    def __class_getitem__(cls, kinds: object) -> object:
        return cls  # Message[str, Order] says what key and value are


def decode_messages(
    source: Any,
    body: bytes,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    appended: bool,
    first: int,
    stop: int,
) -> list[Message]:
    """Those from offset `first` on and before `stop`. `appended`: all have the batch's time."""
    data = body
    size = len(body)
    messages: list[Message] = []
    previous = -1
    at = 0
    for _ in range(count):
        length, at = _varint(data, at, size)
        if length < _RECORD_SIZE_MIN - 1 or length > size - at:
            raise Corrupt(f"record of {length} bytes at byte {at}, where {size - at} are left")
        end = at + length
        at += 1  # attributes, of which records have none
        delta, at = _varint(data, at, end)
        offset_delta, at = _varint(data, at, end)
        if not previous < offset_delta <= last_offset_delta:
            raise Corrupt(
                f"offset delta {offset_delta} at byte {at}, after {previous} in a batch whose"
                f" last is {last_offset_delta}"
            )
        previous = offset_delta
        if base_offset + offset_delta < first:
            at = end
            continue
        if base_offset + offset_delta >= stop:
            return messages
        message = Message.__new__(Message)
        _unwatched(message)  # type: ignore[name-defined]  # noqa: F821
        message._source = source
        message.offset = base_offset + offset_delta
        message.timestamp = max_timestamp if appended else _time(base_timestamp, delta, at)

        if at < end and data[at] < 0x80:
            length = (data[at] >> 1) ^ -(data[at] & 1)
            at += 1
        else:
            length, at = _varint(data, at, end)
        if length == -1:
            message.key = None
        elif length < 0 or length > end - at:
            raise Corrupt(f"key of {length} bytes at byte {at}, where {end - at} are left")
        else:
            message.key = data[at : at + length]
            at += length

        length, at = _varint(data, at, end)
        if length == -1:
            message.value = None
        elif length < 0 or length > end - at:
            raise Corrupt(f"value of {length} bytes at byte {at}, where {end - at} are left")
        else:
            message.value = data[at : at + length]
            at += length

        if end - at == 1 and data[at] == 0:
            message._packed = ()
        else:
            message._packed = data[at:end]
        at = end
        messages.append(message)
    if at != size:
        raise Corrupt(f"records end at byte {at} of {size}")
    return messages


def acquired_messages(
    messages: list[Message], ranges: list[tuple[int, int]], sources: list[Any]
) -> list[Message]:
    """The messages within these ranges, which are sorted. Each gets the source of its range."""
    found: list[Message] = []
    at = 0
    for message in messages:
        while at < len(ranges) and ranges[at][1] < message.offset:
            at += 1
        if at == len(ranges):
            break
        if ranges[at][0] <= message.offset:
            message._source = sources[at]
            found.append(message)
    return found


def unpack_headers(packed: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """The headers at the end of a record: a count, then keys with their values."""
    data = packed
    size = len(packed)
    headers: list[tuple[str, bytes | None]] = []
    count, at = _varint(data, 0, size)
    if count < 0 or count > (size - at) // 2:
        raise Corrupt(f"{count} headers in {size} bytes")
    for _ in range(count):
        length, at = _varint(data, at, size)
        if length < 0 or length > size - at:
            raise Corrupt(f"header key of {length} bytes, where {size - at} are left")
        try:
            name = packed[at : at + length].decode("utf-8")
        except UnicodeDecodeError as problem:
            raise Corrupt(f"header key: {problem}") from None
        at += length
        length, at = _varint(data, at, size)
        if length < -1 or length > size - at:
            raise Corrupt(f"header value of {length} bytes, where {size - at} are left")
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, packed[at : at + length]))
            at += length
    if at != size:
        raise Corrupt(f"headers end at byte {at} of {size}")
    return tuple(headers)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at < end and data[at] < 0x80:
        return (data[at] >> 1) ^ -(data[at] & 1), at + 1
    if end - at > 1 and data[at + 1] < 0x80:
        raw = data[at] & 0x7F | data[at + 1] << 7
        return (raw >> 1) ^ -(raw & 1), at + 2
    return _varint_long(data, at, end)


def _varint_long(data: bytes, at: int, end: int) -> tuple[int, int]:
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
        raise Corrupt(f"a number before byte {at} is over 64 bits")
    raise Corrupt(f"a number is cut short at byte {at}")


def _time(base: int, delta: int, at: int) -> int:
    if base > _INT64_MAX - delta if delta > 0 else base < _INT64_MIN - delta:
        raise Corrupt(f"timestamp {base} + {delta} at byte {at} is over 64 bits")
    return base + delta
