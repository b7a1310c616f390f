"""Walks the batches of a file: headers only, or whole batches with their checksums.

In: an open file and a range. Out: headers with their positions.
Not here: what to do about a bad batch (log/recovery/log_recovery.py cuts, reads raise).
"""

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.model.errors import Code, Corrupt
from barnabas.model.ports import File
from barnabas.wire.batch import (
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
)

CHUNK_SIZE = 8192
CHECKED_CHUNK_SIZE = 1 << 20
CHUNK_SIZE_WHOLE = 1 << 18  # stays in a processor's cache while it is looked through


def headers(
    file: File, position: int, end: int, chunk_size: int = CHUNK_SIZE
) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch from `position` to `end`, a few KB per read; Corrupt where the chain breaks."""
    chunk = b""
    chunk_start = position
    unpack = HEADER.unpack_from
    while position < end:
        inside = position - chunk_start
        if inside + HEADER_SIZE > len(chunk):
            chunk = file.read(position, min(chunk_size, end - position))
            chunk_start, inside = position, 0
            if len(chunk) < HEADER_SIZE:
                raise _broken(position, f"{len(chunk)} bytes are too few for a batch")
        header = BatchHeader._make(unpack(chunk, inside))
        problem = chain_problem(header, end - position)
        if problem:
            raise _broken(position, problem)
        yield position, header
        position += header.length + LENGTH_OVERHEAD


def chain_problem(header: BatchHeader, bytes_left: int) -> str:
    """Why this cannot be the header of a stored batch, or nothing."""
    if header.magic != MAGIC:
        return f"batch magic is {header.magic}"
    if header.length < HEADER_SIZE - LENGTH_OVERHEAD:
        return f"batch length is {header.length}"
    if header.size > bytes_left:
        return f"batch of {header.size} bytes, {bytes_left} are left"
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return f"offsets {header.base_offset} to {header.last_offset}"
    return ""


class CheckedBatch(NamedTuple):
    """A batch that is what it says, or `problem` says why the rest of the file is not."""

    position: int
    header: BatchHeader | None
    problem: str


def checked_batches(file: File, end: int, start: int = 0) -> Iterator[CheckedBatch]:
    """Every batch from `start` on, header and checksum checked; the last one may be a problem."""
    position = chunk_start = start
    chunk = memoryview(b"")
    while position < end:
        inside = position - chunk_start
        left = len(chunk) - inside
        if left < HEADER_SIZE:
            chunk = memoryview(file.read(position, CHECKED_CHUNK_SIZE))
            chunk_start, inside, left = position, 0, len(chunk)
            if left < HEADER_SIZE:
                yield CheckedBatch(position, None, f"{left} bytes are too few for a batch")
                return
        header = BatchHeader._make(HEADER.unpack_from(chunk, inside))
        problem = chain_problem(header, end - position)
        if problem:
            yield CheckedBatch(position, None, problem)
            return
        size = header.length + LENGTH_OVERHEAD
        if size > left:
            chunk = memoryview(file.read(position, max(size, CHECKED_CHUNK_SIZE)))
            chunk_start, inside = position, 0
        try:
            check_crc(chunk, header, inside)
        except Corrupt as error:
            yield CheckedBatch(position, None, error.detail)
            return
        yield CheckedBatch(position, header, "")
        position += size


class BatchScanner:
    """Batches of a file from its start to `end`, of which many may lie in `chunk` at once.

    `at`: where the next one is in the chunk; a caller that has handled some moves it on.
    """

    __slots__ = ("_end", "_file", "_start", "at", "chunk")

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._end = end
        self._start = 0
        self.chunk = b""
        self.at = 0

    @property
    def position(self) -> int:
        return self._start + self.at

    @property
    def end_at(self) -> int:
        """Where in the chunk the last batch of all would end."""
        return self._end - self._start

    def peek(self) -> BatchHeader | None:
        """The header of the next batch, all of which is in the chunk then; None at the end.

        Corrupt where the chain breaks.
        """
        position = self.position
        if position >= self._end:
            return None
        left = len(self.chunk) - self.at
        if left < HEADER_SIZE:
            left = self._read(position, CHUNK_SIZE_WHOLE)
            if left < HEADER_SIZE:
                raise _broken(position, f"{left} bytes are too few for a batch")
        header = BatchHeader._make(HEADER.unpack_from(self.chunk, self.at))
        if problem := chain_problem(header, self._end - position):
            raise _broken(position, problem)
        if header.size > left:
            self._read(position, max(header.size, CHUNK_SIZE_WHOLE))
        return header

    def take(self, header: BatchHeader) -> int:
        """Go on behind the batch that `peek` saw; where it is. Corrupt if its checksum is wrong."""
        at = self.at
        try:
            check_crc(self.chunk, header, at)
        except Corrupt as error:
            raise _broken(self.position, error.detail) from None
        self.at += header.size
        return at

    def _read(self, position: int, size: int) -> int:
        self.chunk = self._file.read(position, min(size, self._end - position))
        self._start, self.at = position, 0
        return len(self.chunk)


def _broken(position: int, problem: str) -> Corrupt:
    return Corrupt(f"at position {position}: {problem}", Code.KAFKA_STORAGE_ERROR)
