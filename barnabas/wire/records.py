"""Packs records into batches (magic 2) and reads them back.

In: records, or the bytes of batches. Out: batches, records, or Corrupt that says what and where.
Always: a batch that is read holds as many records as its header says, in the order of offsets.
Not here: the loops over records (record_loops.py, record_writer.py), the batch header (batch.py),
the codecs (compression.py), what a topic allows (log/).
"""

from collections.abc import Iterable, Iterator, Sequence

from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer
from barnabas.wire import record_loops
from barnabas.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    read_header,
    seal,
    write_header,
)
from barnabas.wire.compression import Codec, compress, decompress
from barnabas.wire.record_loops import COMPILED, RECORD_SIZE_MIN, Headers, Record
from barnabas.wire.record_writer import RecordWriter

__all__ = [
    "COMPILED",
    "RECORDS_SIZE_MAX",
    "BatchBuilder",
    "Headers",
    "Record",
    "batch_of",
    "body_of",
    "count_records",
    "decode_batch",
    "encode_batch",
    "find_by_time",
    "iter_batches",
    "producer_batch",
    "recompressed",
    "records_of",
]

RECORDS_SIZE_MAX = 128 * 1024 * 1024  # of one batch, decompressed, unless the caller says otherwise

_CODECS = tuple(Codec)
_INT32_MAX = 0x7FFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MIN = -_INT64_MAX - 1


class BatchBuilder(RecordWriter):
    """Collects the records of one batch, encoded as they come; `build` may be called once."""

    def __init__(self, size_max: int = _INT32_MAX) -> None:
        super().__init__(HEADER_SIZE, size_max)

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
        if last_offset_delta is None:
            last_offset_delta = max(self.last_offset_delta, 0)
        elif not self.last_offset_delta <= last_offset_delta <= _INT32_MAX:
            raise ValueError(
                f"last offset delta {last_offset_delta}, but there is a record at"
                f" {self.last_offset_delta}"
            )
        batch = _with_records_compressed(self.close(), codec, level)
        attributes = (
            codec
            | (LOG_APPEND_TIME if log_append_time is not None else 0)
            | (TRANSACTIONAL if transactional else 0)
            | (CONTROL if control else 0)
        )
        seal(
            batch,
            (
                attributes,
                last_offset_delta,
                self.base_timestamp,
                self.max_timestamp if log_append_time is None else log_append_time,
                producer_id,
                producer_epoch,
                base_sequence,
                self.count,
            ),
            base_offset,
            leader_epoch,
        )
        return batch


def producer_batch(
    records: bytearray,
    count: int,
    codec: Codec,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool = False,
) -> bytearray:
    """The batch as its producer sends it. `records` leave room for the header."""
    batch = _with_records_compressed(records, codec)
    seal(
        batch,
        (
            codec | TRANSACTIONAL if transactional else codec,
            count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ),
    )
    return batch


def _with_records_compressed(batch: bytearray, codec: Codec, level: int | None = None) -> bytearray:
    """The header is written afterwards: it has the checksum of the compressed records."""
    if codec is Codec.NONE:
        return batch
    with memoryview(batch) as view:
        compressed = compress(codec, view[HEADER_SIZE:], level)
    batch = bytearray(HEADER_SIZE)
    batch += compressed
    return batch


def batch_of(
    encoded: Sequence[tuple[bytes, bytes | None]],
    timestamp: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytearray:
    """One batch of keys and values that are all of one time; with a producer id, a transactional
    one."""
    writer = RecordWriter(HEADER_SIZE, _INT32_MAX)
    for key, value in encoded:
        writer.append(key, value, (), timestamp)
    count = len(encoded)
    batch = writer.close()
    attributes = TRANSACTIONAL if producer_id >= 0 else 0
    producer = (producer_id, producer_epoch, -1)
    seal(batch, (attributes, count - 1, timestamp, timestamp, *producer, count))
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
    builder.extend(records, base_offset)
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
    view: Buffer,
    *,
    header: BatchHeader | None = None,
    crc: bool = True,
    size_max: int = RECORDS_SIZE_MAX,
) -> list[Record]:
    """The records of the batch that `view` starts with; `crc=False` trusts its checksum.

    `header`: the batch's, where it has been read already."""
    if header is None:
        header = read_header(view)
    if crc:
        check_crc(view, header)
    body = records_of(view, header, size_max=size_max)
    return record_loops.decode_records(
        body,
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        bool(header.attributes & LOG_APPEND_TIME),
    )


def records_of(view: Buffer, header: BatchHeader, *, size_max: int = RECORDS_SIZE_MAX) -> bytes:
    """The bytes of the records of one batch, decompressed, their number plausible."""
    return bytes(body_of(view, header, size_max=size_max))


def body_of(view: Buffer, header: BatchHeader, *, size_max: int = RECORDS_SIZE_MAX) -> Buffer:
    """As `records_of`, without a copy where the batch was not compressed."""
    number = header.attributes & CODEC_MASK
    if number >= len(_CODECS):
        raise Corrupt(f"batch is compressed with codec {number}; there are 0 to 4")
    packed = memoryview(view)[HEADER_SIZE : header.size]
    body = decompress(_CODECS[number], packed, size_max)
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


def recompressed(view: Buffer, codec: Codec, *, size_max: int = RECORDS_SIZE_MAX) -> bytearray:
    """The same batch in another codec; Corrupt unless it is what its header says."""
    header = read_header(view)
    check_crc(view, header)
    body = records_of(view, header, size_max=size_max)
    found = record_loops.count_records(body)
    if found != header.record_count:
        raise Corrupt(f"batch header counts {header.record_count} records, there are {found}")
    batch = bytearray(HEADER_SIZE)
    batch += compress(codec, body)
    write_header(batch, header._replace(attributes=header.attributes & ~CODEC_MASK | codec))
    return batch


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
    delta, found = record_loops.find_record(
        body,
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
    return record_loops.count_records(bytes(body))
