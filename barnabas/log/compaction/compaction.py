"""Compacts segments of one log into new ones that hold the last record of each key.

In: sealed segments (CompactionJob). Out: `.cleaned` files, synced, one segment
for each group of old ones; what it did (CleanedSegment). The log itself is not touched.
Always: offsets, order and the bytes of surviving records stay; a batch of which all survives is
copied as it is. The last batch of an active producer and the last of all stay, empty if need be:
sequences, and how far a reader has come, would be lost with them.
Always: a tombstone is kept until its batch's delete horizon, which is set when it is first met.
Always: memory is bounded by the table of keys and the largest batch.
Not here: which log (cleanable.py), putting the files in place (segment_swap.py), the loops over
batches (log/batch_loops.py) and records (key_loops.py). Records of transactions are kept and take
no other's place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barnabas.log.batch_loops import keep_batches, map_batches
from barnabas.log.compaction.job import (
    CleanedSegment,
    CompactionJob,
    SealedSegment,
    bases_path,
    cleaned_paths,
    encode_bases,
)
from barnabas.log.compaction.key_loops import OffsetMap, rebased
from barnabas.log.segments.index import RELATIVE_OFFSET_MAX
from barnabas.log.segments.index_builder import IndexBuilder
from barnabas.log.segments.scan import BatchScanner
from barnabas.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from barnabas.model.errors import Code, Corrupt, Failed
from barnabas.model.ports import Buffer, Disk, File
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


class Compaction:
    """Call `map_keys`, then `clean` for each of `groups()`."""

    def __init__(
        self,
        disk: Disk,
        job: CompactionJob,
        secret: bytes,
        pause: Pause,
        zeros: Callable[[int], Buffer] = bytearray,
    ) -> None:
        """`pause` is called with the bytes read or written; it may wait, or raise to stop the pass.
        `zeros` makes the memory of the table of keys."""
        self._disk = disk
        self._job = job
        self._pause = pause
        records_max = max(0, job.dirty_to - job.dirty_from)
        self._keys = OffsetMap(job.keys_bytes_max, secret, records_max, zeros)
        self.end_offset = job.dirty_from  # every key below is known

    @property
    def keys(self) -> int:
        return self._keys.count

    def map_keys(self) -> None:
        """Read the dirty part, as far as the table of keys takes it."""
        job = self._job
        for source in job.sources:
            if source.next_offset <= job.dirty_from or source.base_offset >= job.dirty_to:
                continue
            with self._reading(source) as reader:
                if not self._map_source(reader):
                    return
            self.end_offset = max(self.end_offset, min(source.next_offset, job.dirty_to))

    def _map_source(self, reader: BatchScanner) -> bool:
        """False if its keys do not all fit."""
        job = self._job
        while header := reader.peek():
            start = reader.at
            reader.at, next_offset = map_batches(
                self._keys, reader.chunk, start, job.dirty_from, job.dirty_to
            )
            if reader.at == start:  # not a usual one
                if header.base_offset >= job.dirty_to:
                    break
                at = reader.take(header)
                if header.last_offset >= job.dirty_from and not self._map(header, reader.chunk, at):
                    self._check_progress(header)
                    return False
                next_offset = header.last_offset + 1
            self.end_offset = max(self.end_offset, next_offset)
            self._pause(reader.at - start)
        return True

    def _map(self, header: BatchHeader, chunk: bytes, at: int) -> bool:
        if header.attributes & (CONTROL | TRANSACTIONAL) or not header.record_count:
            return True
        body, start, end = _records(header, chunk, at)
        count = header.record_count
        return self._keys.add(body, start, end, count, header.base_offset, self._job.dirty_from)

    def _check_progress(self, header: BatchHeader) -> None:
        if self.end_offset <= self._job.dirty_from:
            raise Failed(
                Code.KAFKA_STORAGE_ERROR,
                f"{self._job.path}: {self._keys.capacity} keys fit in memory, and the batch at "
                f"{header.base_offset} has more: raise log.cleaner.dedupe.buffer.size",
            )

    def groups(self) -> list[list[SealedSegment]]:
        """Neighbours that fit in one segment together."""
        job = self._job
        groups: list[list[SealedSegment]] = []
        size = offset_bytes = time_bytes = 0
        for source in job.sources:
            if source.base_offset >= self.end_offset:
                break
            more_offset_bytes = self._index_size(source, INDEX_SUFFIX)
            more_time_bytes = self._index_size(source, TIME_INDEX_SUFFIX)
            if groups and (
                size + source.size <= job.segment_bytes
                and offset_bytes + more_offset_bytes <= job.segment_index_bytes
                and time_bytes + more_time_bytes <= job.segment_index_bytes
                and source.next_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
            ):
                groups[-1].append(source)
            else:
                groups.append([source])
                size = offset_bytes = time_bytes = 0
            size += source.size
            offset_bytes += more_offset_bytes
            time_bytes += more_time_bytes
        return groups

    def _index_size(self, source: SealedSegment, suffix: str) -> int:
        try:
            return self._disk.size(self._path(source.base_offset, suffix))
        except FileNotFoundError:
            return 0

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._job.path}/{base_offset:020d}{suffix}"

    @contextmanager
    def _reading(self, source: SealedSegment) -> Iterator[BatchScanner]:
        path = self._path(source.base_offset, LOG_SUFFIX)
        file = self._disk.open(path)
        try:
            yield BatchScanner(file, source.size)
        except Corrupt as error:
            raise Corrupt(f"{path}: {error.detail}", error.code) from None
        finally:
            file.close()

    def clean(self, group: list[SealedSegment]) -> CleanedSegment:
        """Write the group's new segment; whatever goes wrong leaves no files of it."""
        base = group[0].base_offset
        paths = cleaned_paths(self._job.path, base)
        self._pause(0)
        try:
            return self._clean(group, paths)
        except BaseException:
            for path in (*paths, bases_path(self._job.path, base)):
                self._disk.remove(path)
            raise

    def _clean(self, group: list[SealedSegment], paths: tuple[str, str, str]) -> CleanedSegment:
        job = self._job
        bases = [source.base_offset for source in group]
        self._write(bases_path(job.path, bases[0]), encode_bases(bases))
        builder = IndexBuilder(group[0].base_offset, job.index_interval_bytes)
        writer = _Writer(self._disk, paths[2], builder, self._pause)
        counts = [0, 0, 0]
        try:
            for source in group:
                with self._reading(source) as reader:
                    self._clean_source(writer, reader, source is job.sources[-1], counts)
            writer.finish()
        finally:
            writer.close()
        builder.finish()
        self._write(paths[0], builder.offset_entries)
        self._write(paths[1], builder.time_entries)
        newest = self._disk.modified_ms(self._path(group[-1].base_offset, LOG_SUFFIX))
        self._disk.set_modified_ms(paths[2], newest)
        size, (read, kept, keyless) = sum(source.size for source in group), counts
        return CleanedSegment(bases, writer.size, size, read, kept, keyless, self._job.cuts)

    def _clean_source(
        self, writer: "_Writer", reader: BatchScanner, final: bool, counts: list[int]
    ) -> None:
        """`counts`: of records read, kept and without a key, to be added to."""
        while header := reader.peek():
            start = reader.at
            last_at = reader.end_at if final else -1
            reader.at, *more = keep_batches(
                self._keys,
                reader.chunk,
                start,
                last_at,
                self.end_offset,
                self._job.producers,
                writer.buffer,
                writer.written,
                writer.add_batch,
            )
            if reader.at == start:  # not a usual one
                at = reader.take(header)
                more = self._keep(writer, header, reader.chunk, at, reader.at == last_at)
            for i, number in enumerate(more):
                counts[i] += number
            writer.drain()
            self._pause(reader.at - start)

    def _keep(
        self, writer: "_Writer", header: BatchHeader, chunk: bytes, at: int, ends: bool
    ) -> list[int]:
        """What survives of one batch goes to the writer; its records, those kept and keyless."""
        job, count = self._job, header.record_count
        if header.base_offset >= self.end_offset or (
            count and header.attributes & (CONTROL | TRANSACTIONAL)
        ):
            writer.copy(header, chunk, at)
            return [count, count, 0]
        retain = ends or job.producers.get(header.producer_id) == header.last_offset
        if not count:
            if retain:
                writer.copy(header, chunk, at)
            return [0, 0, 0]
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else -1
        body, start, end = _records(header, chunk, at)
        kept, tombstones, largest, keyless, runs = self._keys.survey(
            body,
            start,
            end,
            count,
            header.base_offset,
            header.base_timestamp,
            self.end_offset - 1,
            0 <= horizon <= job.wall_ms,
        )
        if kept == count and (not tombstones or horizon >= 0):
            writer.copy(header, chunk, at)
        elif kept:
            writer.write(self._rebuilt(header, body, kept, bool(tombstones), largest, runs))
        elif retain:
            writer.write(_emptied(header))
        return [count, kept, keyless]

    def _rebuilt(
        self,
        header: BatchHeader,
        body: bytes,
        kept: int,
        tombstones: bool,
        largest: int,
        runs: list[int],
    ) -> bytearray:
        """The batch with its surviving records only, at their offsets and times."""
        attributes, base = header.attributes, header.base_timestamp
        if tombstones and not attributes & DELETE_HORIZON:
            base = self._job.wall_ms + self._job.delete_retention_ms
            attributes |= DELETE_HORIZON
            records: bytes | bytearray = rebased(body, runs, header.base_timestamp - base)
        else:
            view = memoryview(body)
            records = b"".join(view[runs[i] : runs[i + 1]] for i in range(0, len(runs), 2))
        batch = bytearray(HEADER_SIZE)
        batch += compress(Codec(attributes & CODEC_MASK), records)
        stamped = header.attributes & LOG_APPEND_TIME
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

    def _write(self, path: str, data: bytes | bytearray) -> None:
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            if data:
                file.write(0, data)
            file.sync()
        finally:
            file.close()


class _Writer:
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


def _records(header: BatchHeader, chunk: bytes, at: int) -> tuple[bytes, int, int]:
    """The bytes of a batch's records, and where in them the records start and end."""
    end = at + header.size
    if not header.attributes & CODEC_MASK:
        return chunk, at + HEADER_SIZE, end
    view = memoryview(chunk)[at:end]
    body = records_of(view, header, size_max=RECORDS_BYTES_MAX)
    return body, 0, len(body)


def _emptied(header: BatchHeader) -> bytearray:
    """The batch without records, as Kafka writes it: producer, sequence and offsets stay."""
    batch = bytearray(HEADER_SIZE)
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    write_header(
        batch,
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0),
    )
    return batch
