"""Writes the log file of a compacted segment, and the batches that compaction changes.

In: batches that stay, whole or in part. Out: the file, in large pieces; what its indexes need.
Always: a batch keeps its offsets, its producer, its sequences and the times of its records.
Not here: which records stay (compaction.py).
"""

from collections.abc import Callable

from barnabas.log.compaction.key_loops import rebased
from barnabas.log.segments.index_builder import IndexBuilder
from barnabas.log.transactions.aborted_index import AbortedTransaction
from barnabas.model.ports import Disk, File
from barnabas.wire.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    write_header,
)
from barnabas.wire.compression import Codec, compress
from barnabas.wire.records import records_of

WRITE_SIZE = 1 << 20
SYNC_SIZE = 64 << 20  # written at most before a sync: one of a gigabyte would hold up other writers
RECORDS_BYTES_MAX = 32 << 20  # of one batch, decompressed

Pause = Callable[[int], None]


class SegmentWriter:
    """The log file of the new segment, written in large pieces."""

    def __init__(self, disk: Disk, path: str, builder: IndexBuilder, pause: Pause) -> None:
        self._builder = builder
        self._pause = pause
        self._synced = 0
        self._file: File = disk.open(path, create=True)
        self._file.truncate(0)
        self.add_batch = builder.add_batch
        self.buffer = bytearray()  # to be written behind the `written` bytes
        self.written = 0
        self.aborted: list[AbortedTransaction] = []  # in the order of their markers

    @property
    def size(self) -> int:
        return self.written + len(self.buffer)

    def copy(self, header: BatchHeader, chunk: bytes, at: int) -> None:
        """A batch as it is."""
        self._builder.add(self.size, header)
        self.buffer += memoryview(chunk)[at : at + header.size]

    def write(self, batch: bytearray) -> None:
        self._builder.add(self.size, read_header(batch))
        self.buffer += batch

    def drain(self, least: int = WRITE_SIZE) -> None:
        """Write what there is, if it is worth it."""
        size = len(self.buffer)
        if size >= least:
            self._file.write(self.written, self.buffer)
            self.written += size
            self.buffer.clear()
            if self.written - self._synced >= SYNC_SIZE:
                self._file.sync()
                self._synced = self.written
            self._pause(size)

    def finish(self) -> None:
        self.drain(1)
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def records_at(header: BatchHeader, chunk: bytes, at: int) -> tuple[bytes, int, int]:
    """The bytes of a batch's records, and where in them the records start and end."""
    end = at + header.size
    if not header.attributes & CODEC_MASK:
        return chunk, at + HEADER_SIZE, end
    view = memoryview(chunk)[at:end]
    body = records_of(view, header, size_max=RECORDS_BYTES_MAX)
    return body, 0, len(body)


def rebuilt(
    header: BatchHeader, body: bytes, kept: int, largest: int, runs: list[int], horizon: int
) -> bytearray:
    """The batch with its surviving records only, at their offsets and times.

    `horizon`: its delete horizon from now on; -1: as it was.
    """
    attributes, base = header.attributes, header.base_timestamp
    if horizon >= 0:
        records: bytes | bytearray = rebased(body, runs, base - horizon)
        base, attributes = horizon, attributes | DELETE_HORIZON
    else:
        view = memoryview(body)
        records = b"".join(view[runs[i] : runs[i + 1]] for i in range(0, len(runs), 2))
    batch = bytearray(HEADER_SIZE)
    batch += compress(Codec(attributes & CODEC_MASK), records)
    stamped = attributes & LOG_APPEND_TIME
    write_header(
        batch,
        header._replace(
            attributes=attributes,
            base_timestamp=base,
            max_timestamp=header.max_timestamp if stamped else largest,
            record_count=kept,
        ),
    )
    return batch


def with_horizon(header: BatchHeader, chunk: bytes, at: int, horizon: int) -> bytearray:
    """The whole batch, with a delete horizon."""
    body, start, end = records_at(header, chunk, at)
    count, largest = header.record_count, header.max_timestamp
    return rebuilt(header, body, count, largest, [start, end], horizon)


def emptied(header: BatchHeader) -> bytearray:
    """The batch without records, as Kafka writes it: producer, sequence and offsets stay."""
    batch = bytearray(HEADER_SIZE)
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    write_header(
        batch,
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0),
    )
    return batch
