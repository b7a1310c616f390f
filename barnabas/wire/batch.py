"""The header of a record batch (magic 2): the only part of a batch that a broker reads.

In: views of bytes from the wire or a file. Out: headers, or Corrupt; batches with their headers.
Always: the batch of a header that `read_header` returns is completely inside the view.
Not here: the records inside (records.py), what a topic allows (log/).
"""

from struct import Struct
from typing import NamedTuple

from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.model.ports import Buffer
from barnabas.wire.checksum import crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size  # 61
CRC = Struct(">I")
LENGTH_OVERHEAD = 12  # base offset and length, which `length` does not count
MAGIC = 2

CRC_POSITION = 17
ATTRIBUTES_POSITION = 21  # the checksum covers everything from here on

CODEC_MASK = 0b111
LOG_APPEND_TIME = 1 << 3
TRANSACTIONAL = 1 << 4
CONTROL = 1 << 5
DELETE_HORIZON = 1 << 6

NO_TIMESTAMP = -1
NO_SEQUENCE = -1

LENGTH_MAX = 0x7FFF_FFFF

_PRODUCER = Struct(">qhi")
_PRODUCER_POSITION = 43
_PREFIX = Struct(">qiib")
_PREFIX_SIZE = _PREFIX.size


class BatchHeader(NamedTuple):
    """The 61 bytes in front of every batch, field by field."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequences are 31 bits wide and wrap to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; Corrupt unless the view contains the whole batch."""
    if position + HEADER_SIZE > len(view):
        if position + _PREFIX_SIZE <= len(view):
            _check_magic(_PREFIX.unpack_from(view, position)[3])
        raise Corrupt(f"batch header cut short: {len(view) - position} bytes, {HEADER_SIZE} needed")
    header = BatchHeader._make(HEADER.unpack_from(view, position))
    _check_magic(header.magic)
    if header.length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise Corrupt(f"batch length {header.length} is less than its header")
    if position + header.length + LENGTH_OVERHEAD > len(view):
        raise Corrupt(
            f"batch of {header.size} bytes cut short: {len(view) - position} bytes are there"
        )
    return header


def time_about(header: BatchHeader, offset: int) -> int | None:
    """The approximate time of the record at `offset`, without decompressing the batch; None if
    unknown.
    """
    if header.attributes & LOG_APPEND_TIME:
        return header.max_timestamp
    if header.base_timestamp < 0:
        return None
    share = min(1.0, max(0, offset - header.base_offset) / max(1, header.last_offset_delta))
    return header.base_timestamp + int((header.max_timestamp - header.base_timestamp) * share)


def check_crc(view: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Corrupt unless the batch at `position` has the checksum that it states."""
    body = memoryview(view)[position + ATTRIBUTES_POSITION : position + header.size]
    crc = crc32c(body)
    if crc != header.crc:
        raise Corrupt(f"batch checksum is {crc:#010x}, its header says {header.crc:#010x}")


def write_header(batch: bytearray, header: BatchHeader) -> None:
    """Write the first 61 bytes of a whole batch; computes its length and checksum."""
    seal(batch, header[5:], header.base_offset, header.leader_epoch)


def seal(
    batch: bytearray, fields: tuple[int, ...], base_offset: int = 0, leader_epoch: int = -1
) -> None:
    """`write_header`, from the fields of BatchHeader that follow the checksum."""
    length = len(batch) - LENGTH_OVERHEAD
    if length > LENGTH_MAX:
        raise InvalidRequest(
            Code.MESSAGE_TOO_LARGE,
            f"batch of {len(batch)} bytes: no batch can be larger than {LENGTH_MAX}; split it",
        )
    HEADER.pack_into(batch, 0, base_offset, length, leader_epoch, MAGIC, 0, *fields)
    CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))


def rewrite_producer(batch: bytearray, producer_id: int, epoch: int, sequence: int) -> None:
    """Give a whole batch another producer id, epoch and first sequence number."""
    _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, epoch, sequence)
    CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))


def _check_magic(magic: int) -> None:
    if magic != MAGIC:
        raise Corrupt(f"batch magic {magic}; only version 2 (Kafka 0.11 and later) is supported")
