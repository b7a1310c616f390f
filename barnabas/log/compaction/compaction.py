"""Compacts segments of one log into new ones that hold the last record of each key.

In: sealed segments (CompactionJob). Out: `.cleaned` files, synced, one segment
for each group of old ones; what it did (CleanedSegment). The log itself is not touched.
Always: offsets, order and the bytes of surviving records stay; a batch of which all survives is
copied as it is. The last batch of an active producer, the first batch of a leader epoch and the
last of all stay, empty if need be: with them, sequences, the start of the epoch (replicas learn it
from the batches that they copy) and how far a reader has come would be lost.
Always: a tombstone is kept until its batch's delete horizon, which is set when it is first met.
Always: aborted records go, and replace no record of their key. A marker stays while a batch of its
transaction is there; the next pass sets its delete horizon, as if it were a tombstone. It stays
longer if it alone has the epoch of an active producer.
Always: memory is bounded by the table of keys, the largest batch, and the aborted transactions
that overlap.
Not here: which log (cleanable.py), putting the files in place (segment_swap.py), the loops over
batches (log/batch_loops.py) and records (key_loops.py), which transactions are aborted
(transaction_scan.py), the bytes of new batches (segment_writer.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barnabas.log.batch_loops import keep_batches, map_batches
from barnabas.log.compaction.job import (
    CleanedSegment,
    CompactionJob,
    SealedSegment,
    aborted_path,
    bases_path,
    cleaned_paths,
    encode_bases,
)
from barnabas.log.compaction.key_loops import OffsetMap
from barnabas.log.compaction.segment_writer import (
    Pause,
    SegmentWriter,
    emptied,
    rebuilt,
    records_at,
    with_horizon,
)
from barnabas.log.compaction.transaction_scan import TransactionScan
from barnabas.log.config import INT64_MAX
from barnabas.log.segments.index import RELATIVE_OFFSET_MAX
from barnabas.log.segments.index_builder import IndexBuilder
from barnabas.log.segments.scan import BatchScanner
from barnabas.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from barnabas.log.transactions.aborted_index import AbortedIndex
from barnabas.model.errors import Code, Corrupt, Failed
from barnabas.model.ports import Buffer, Disk
from barnabas.wire.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL, BatchHeader
from barnabas.wire.control_records import read_marker


class Compaction:
    """Call `map_keys`, then `clean` for each of `groups()`, in order, until one fails."""

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
        self._epoch_starts = frozenset(job.epoch_starts)
        self._cleaning = False  # the second phase, which begins at the start of the log again
        self._transactions: TransactionScan | None = None  # of the phase, made when it is needed
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
        if header.attributes & CONTROL:
            marker = read_marker(memoryview(chunk)[at : at + header.size], header)
            if marker is not None:
                self._scan().add_marker(header, marker)
            return True
        aborted = header.attributes & TRANSACTIONAL and self._scan().add_batch(header)
        if aborted or not header.record_count:
            return True
        body, start, end = records_at(header, chunk, at)
        count = header.record_count
        return self._keys.add(body, start, end, count, header.base_offset, self._job.dirty_from)

    def _scan(self) -> TransactionScan:
        if self._transactions is None:
            first = 0 if self._cleaning else self._job.dirty_from
            sources = (each for each in self._job.sources if each.next_offset > first)
            self._transactions = TransactionScan(self._disk, self._job, sources)
        return self._transactions

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
        self._cleaning, self._transactions = True, None
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
        directory = self._job.path
        self._pause(0)
        try:
            return self._clean(group, cleaned_paths(directory, base))
        except BaseException:
            paths = cleaned_paths(directory, base)
            for path in (*paths, aborted_path(directory, base), bases_path(directory, base)):
                self._disk.remove(path)
            raise

    def _clean(self, group: list[SealedSegment], paths: tuple[str, str, str]) -> CleanedSegment:
        job = self._job
        bases = [source.base_offset for source in group]
        builder = IndexBuilder(group[0].base_offset, job.index_interval_bytes)
        writer = SegmentWriter(self._disk, paths[2], builder, self._pause)
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
        has_aborted = bool(writer.aborted)
        if has_aborted:
            index = AbortedIndex(self._disk, aborted_path(job.path, bases[0]))
            index.replace(writer.aborted, sync=True)
        self._write(bases_path(job.path, bases[0]), encode_bases(bases))
        newest = self._disk.modified_ms(self._path(group[-1].base_offset, LOG_SUFFIX))
        self._disk.set_modified_ms(paths[2], newest)
        size, (read, kept, keyless) = sum(source.size for source in group), counts
        return CleanedSegment(
            bases, writer.size, size, read, kept, keyless, self._job.cuts, has_aborted
        )

    def _clean_source(
        self, writer: SegmentWriter, reader: BatchScanner, final: bool, counts: list[int]
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
                self._epoch_starts,
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
        self, writer: SegmentWriter, header: BatchHeader, chunk: bytes, at: int, ends: bool
    ) -> list[int]:
        """What survives of one batch goes to the writer; its records, those kept and keyless."""
        if header.attributes & CONTROL:
            return self._keep_marker(writer, header, chunk, at, ends)
        job, count = self._job, header.record_count
        aborted = header.attributes & TRANSACTIONAL and self._scan().add_batch(header)
        if header.base_offset >= self.end_offset:
            writer.copy(header, chunk, at)
            return [count, count, 0]
        retain = (
            ends
            or job.producers.get(header.producer_id) == header.last_offset
            or header.base_offset in self._epoch_starts
        )
        if aborted or not count:
            if retain:
                writer.write(emptied(header))
            return [count, 0, 0]
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else -1
        body, start, end = records_at(header, chunk, at)
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
            new_horizon = self._horizon if tombstones and horizon < 0 else -1
            writer.write(rebuilt(header, body, kept, largest, runs, new_horizon))
        elif retain:
            writer.write(emptied(header))
        return [count, kept, keyless]

    def _keep_marker(
        self, writer: SegmentWriter, header: BatchHeader, chunk: bytes, at: int, ends: bool
    ) -> list[int]:
        """A marker goes behind the delete horizon, which it gets when its transaction is gone.

        One that an active producer needs stays whole: without its record, it would not tell the
        coordinator's epoch.
        """
        count = header.record_count
        needed = header.base_offset >= self.end_offset
        if count:
            marker = read_marker(memoryview(chunk)[at : at + header.size], header)
            if marker is None:
                needed = True  # of another kind
            else:
                has_data, aborted = self._scan().add_marker(header, marker)
                needed = needed or has_data
                if aborted is not None and needed:
                    writer.aborted.append(aborted)
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else -1
        epoch = self._job.marked_epochs.get(header.producer_id)
        if needed:
            writer.copy(header, chunk, at)
        elif count and horizon < 0:
            writer.write(with_horizon(header, chunk, at, self._horizon))
        elif (
            horizon > self._job.wall_ms
            or ends
            or epoch == header.producer_epoch
            or header.base_offset in self._epoch_starts
        ):
            writer.copy(header, chunk, at)
        else:
            return [count, 0, 0]
        return [count, count, 0]

    @property
    def _horizon(self) -> int:
        """The delete horizon of whatever gets one in this pass."""
        return min(self._job.wall_ms + self._job.delete_retention_ms, INT64_MAX)

    def _write(self, path: str, data: bytes | bytearray) -> None:
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            if data:
                file.write(0, data)
            file.sync()
        finally:
            file.close()
