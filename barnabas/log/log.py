"""One partition's log: its state, and every operation on it.

In: batches as clients sent them, offsets, wall time. Out: offsets, file slices, errors.
Always: start_offset <= high_watermark <= end_offset; the high watermark goes back only with a
truncation; the log holds whole batches.
Always: an append syncs nothing; a roll leaves work for `pending_snapshots` and `pending_flush`.
Longer operations are functions over a Log in modules of their own: append.py (as the leader),
replica_append.py (batches that have offsets), roll.py, truncation.py, segments/deletion.py. Swaps
of compacted segments (log/compaction/segment_swap.py) are not methods: the cleaner carries out
their steps. Not here: opening and damage (log/recovery/log_recovery.py), slices (reader.py), what
is durable (durability.py), the words of a refusal (batch_validation.py), who leads.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from barnabas.log import replica_append, roll, truncation
from barnabas.log.append import Appended, append_batch
from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoints import PARTITION_METADATA, encode_topic_id
from barnabas.log.durability import Durability
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.flush import Flush
from barnabas.log.producers.snapshots import ProducerSnapshots, SnapshotWrite
from barnabas.log.producers.state import ProducerStates
from barnabas.log.reader import BatchSlice, LogReader
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments import deletion as segment_deletion
from barnabas.log.segments import time_lookup
from barnabas.log.segments.deletion import SegmentDeletion
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.log.segments.segment import Segment
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Buffer, Disk, FileSlice

if TYPE_CHECKING:
    from barnabas.log.transactions.aborted_index import AbortedTransaction
    from barnabas.log.transactions.verification import VerificationGuards

HOT_BYTES = 16 << 20

__all__ = ["Appended", "Log", "LogParts", "SegmentDeletion"]


class LogParts(NamedTuple):
    """The state of a log as it was found on disk; a Log is made of it."""

    segments: list[Segment]
    start_offset: int
    high_watermark: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: ProducerSnapshots
    findings: list[RecoveryFinding]
    new: bool
    cleaned_to: int = 0
    has_aborted: bool = False


class Log:
    """Read the attributes freely; change the log only through its methods."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        open_segments: OpenSegments,
        parts: LogParts,
    ) -> None:
        self.disk = disk
        self.open_segments = open_segments
        self.path = path
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = parts.segments
        self.active = parts.segments[-1]  # the one that is appended to
        self.start_offset = parts.start_offset
        self.high_watermark = parts.high_watermark
        self.end_offset = self.active.next_offset
        self.size = sum(segment.size for segment in parts.segments)
        self.cleaned_to = parts.cleaned_to  # the next compaction starts here
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.has_aborted = parts.has_aborted  # may a segment have aborted transactions?
        self.guards: VerificationGuards | None = None  # made with the first transactional batch
        self.snapshots = parts.snapshots
        self.reader = LogReader(parts.segments)
        self.reader.sparse = parts.cleaned_to > 0
        self.durability = Durability(
            disk, path, parts.snapshots, parts.epochs, parts.recovery_point, parts.new
        )
        self.findings = parts.findings
        self.on_roll: Callable[[], None] | None = None
        self.write_failure = ""  # why no append is possible until the next start
        self.moved_away = False  # as it was found: another directory may have newer records of it
        self.deletion_causes: dict[int, str] = {}  # by the base offset of a segment to delete
        # Of the last check of retention: what waits for its table, and what went without waiting.
        self.waiting_bytes = 0
        self.lost_segments = 0
        self.deletions: list[SegmentDeletion] = []  # not yet taken by `take_deletions`
        self.files_to_delete: list[str] = []  # not yet taken by `take_files_to_delete`
        self.flushed_ms = 0  # when flush.ms last caused a flush; set by the broker

    def __repr__(self) -> str:
        return f"Log({self.partition}, {self.start_offset}..{self.end_offset})"

    @property
    def recovery_point(self) -> int:
        """Recovery starts here after a crash."""
        return self.durability.recovery_point

    @property
    def cuts(self) -> int:
        """The number of truncations of its end since it was opened."""
        return self.durability.cuts

    @property
    def durable_offset(self) -> int:
        """Everything below survives a power loss."""
        return self.durability.durable_offset

    # --- leading -------------------------------------------------------------------------------

    def begin_epoch(self, leader_epoch: int, *, durable: bool = False) -> None:
        """This broker leads from here on; called before the first record of the epoch.

        `durable`: write the epoch to disk now, not with the next flush, so that a power loss cannot
        bring its number back. For the start of a broker, while no flush is running.
        """
        self.guards = None  # the requests that wait asked another leader
        self.epochs.begin(leader_epoch, self.end_offset)
        if durable:
            self.durability.save_epochs()

    def advance_high_watermark(self, offset: int) -> int:
        """Raise it to `offset`, at most to the end of the log; returns the high watermark."""
        # Called for each append: calls of min() and max() would cost more than the rest.
        if offset > self.end_offset:  # noqa: PLR1730
            offset = self.end_offset
        if offset > self.high_watermark:  # noqa: PLR1730
            self.high_watermark = offset
        return self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it, every transaction is decided, and that cannot get lost."""
        transactions = self.producers.transactions
        if transactions is None:
            return self.high_watermark
        return transactions.last_stable_offset(self.high_watermark, self.start_offset)

    def aborted_in(self, start: int, end: int) -> "list[AbortedTransaction]":
        """The aborted transactions with records from `start` to `end`, which is excluded."""
        if not self.has_aborted:
            return []
        from barnabas.log.transactions.append import aborted_in

        return aborted_in(self, start, end)

    # --- appending -----------------------------------------------------------------------------

    # The function itself, not a method that calls it: every produce request would pay for the call.
    append = append_batch

    def append_copied(self, data: bytes, wall_ms: int) -> None:
        """Append batches of another log; Corrupt if one does not match its checksum."""
        replica_append.append_copied(self, data, wall_ms)

    def append_fetched(self, data: Buffer, wall_ms: int) -> int:
        """Append batches that a leader sent; returns the number of new bytes.

        Corrupt if they do not continue this log, or if a batch is damaged.
        """
        return replica_append.append_fetched(self, data, wall_ms)

    def roll(self, wall_ms: int) -> Segment:
        """Seal the active segment and start the next one at the end of the log.

        An OSError leaves the old segment active, and no file of the next one.
        """
        return roll.roll(self, wall_ms)

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, limit: int, min_one: bool = True) -> BatchSlice:
        """Whole batches below `limit`, from the one that holds `offset`, of one segment."""
        end = self.end_offset
        limit = min(limit, end)
        if offset < self.start_offset or offset > end:
            raise self._out_of_range(offset)
        if offset >= limit or (bytes_max <= 0 and not min_one):
            return BatchSlice(None, offset)  # without opening a file
        return self.reader.read(offset, bytes_max, limit, min_one)

    def read_for_copy(self, offset: int, bytes_max: int) -> BatchSlice:
        """The same for a replica: up to the end of the log, and also batches without records."""
        if offset < self.start_offset or offset > self.end_offset:
            raise self._out_of_range(offset)
        if offset == self.end_offset:
            return BatchSlice(None, offset)
        return self.reader.read(offset, bytes_max, self.end_offset, True, for_copy=True)

    def is_cold(self, found: FileSlice) -> bool:
        """May reading it wait for the disk? The bytes written last are certainly in memory."""
        active = self.active
        if found.file is active.open_file and active.size - found.position <= HOT_BYTES:
            return False
        return not found.file.cached(found.position, found.length)

    def _out_of_range(self, offset: int) -> InvalidRequest:
        return InvalidRequest(
            Code.OFFSET_OUT_OF_RANGE,
            f"{self.partition}: offset {offset} is outside {self.start_offset} to "
            f"{self.end_offset}; seek to the beginning or the end",
        )

    def find_time(self, timestamp: int) -> time_lookup.FoundRecord | None:
        """The first record at or after `timestamp`."""
        return time_lookup.find_time(self.segments, timestamp, self.start_offset)

    def find_max_timestamp(self) -> time_lookup.FoundRecord | None:
        """The first record with the largest timestamp of all."""
        return time_lookup.find_max_timestamp(self.segments, self.start_offset)

    def time_slice(self, timestamp: int | None) -> FileSlice | None:
        """The bytes that a search by time (None: for the largest) would read first."""
        return time_lookup.time_slice(self.segments, timestamp, self.start_offset)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: the epoch at or below, and its end; (-1, -1) if unknown."""
        return self.epochs.end_of(leader_epoch, self.end_offset)

    # --- deleting and truncating ---------------------------------------------------------------

    def apply_retention(self, wall_ms: int) -> int:
        """Delete segments that are too old or too many; returns how many."""
        return segment_deletion.apply_retention(self, wall_ms)

    def delete_before(self, offset: int) -> None:
        """Raise the start of the log; the files of segments below it go after a checkpoint."""
        segment_deletion.delete_before(self, offset)

    def take_files_to_delete(self) -> list[str]:
        """Files to delete once the start of the log has been checkpointed."""
        segment_deletion.drop_segments_below_start(self)
        files, self.files_to_delete = self.files_to_delete, []
        return files

    def take_deletions(self) -> list[SegmentDeletion]:
        deletions, self.deletions = self.deletions, []
        return deletions

    def truncate_to(self, offset: int, *, sync: bool = True) -> None:
        """Remove all records from `offset` on, and everything derived from them.

        It is synced, and so it is slow. Checkpoint the directory before the next append: the
        recovery point has gone back. Without `sync` a power loss may restore the records until the
        next flush; use that where the leader would detect them as different.
        """
        truncation.truncate_to(self, offset, sync=sync)

    def start_at(self, offset: int) -> None:
        """Let an empty log start at `offset`."""
        truncation.start_at(self, offset)

    def restart_at(self, offset: int) -> None:
        """Drop everything and start at `offset`: the leader no longer has what would follow."""
        truncation.restart_at(self, offset)

    def skip_to(self, offset: int) -> None:
        """End the log at `offset`, with no batch in between: compaction removed the last ones."""
        truncation.skip_to(self, offset)

    # --- durability ----------------------------------------------------------------------------

    def pending_snapshots(self) -> SnapshotWrite | None:
        """The producer snapshots of rolls that are not on disk yet; None if there are none.

        Take the work, run it in the thread of the log directory, and hand it to
        `snapshots_written`. The log must not be renamed meanwhile; all else is allowed.
        """
        return self.snapshots.pending_write()

    def snapshots_written(self, work: SnapshotWrite) -> None:
        """Give the written files their names, unless the log was truncated below them."""
        if self.snapshots.publish(work):
            self.durability.directory_changed()

    def pending_flush(self, *, sealed_only: bool = False) -> Flush | None:
        """What to sync so that all segments (or the sealed ones) are durable; None if they are.

        Take the work, run it in any thread, and hand it to `flushed`. Write the pending snapshots
        first, or the recovery point stays before the roll that they belong to.
        """
        return self.durability.pending(self.segments, self.end_offset, sealed_only=sealed_only)

    def flushed(self, flush: Flush) -> int:
        """The work is done. Everything below the offset returned survives a power loss."""
        return self.durability.flushed(flush)

    def sync_found_no_room(self) -> None:
        """The next flush writes everything that is not durable again before it syncs."""
        self.durability.found_no_room()

    def write_again(self) -> None:
        """Call it before anything else if a sync of the last process did not succeed: everything
        that is not durable gets on its way to the disk again."""
        self.durability.write_again(self.segments, self.end_offset)
        self.release()

    def flush(self) -> int:
        """Sync now, in this thread. Everything below the offset returned is durable."""
        self._write_snapshots()
        work = self.pending_flush()
        if work is not None:
            work.run()
            self.flushed(work)
        return self.durable_offset

    def _write_snapshots(self) -> None:
        work = self.pending_snapshots()
        if work is not None:
            work.run()
            self.snapshots_written(work)

    def close(self) -> None:
        """Leave files that can be opened again without reading the data."""
        if not self.size and not self.end_offset:
            self.release()  # nothing would be lost with the files: they need no sync
            return
        self._write_snapshots()
        if self.size and self.end_offset not in self.snapshots.offsets:
            self.snapshots.write(self.producers, self.end_offset)
            self.durability.directory_changed()
        active = self.active
        touched = active.entries_left > 0 or self.recovery_point < self.end_offset
        active.seal()
        if touched:
            work: Flush | None = self.durability.closing(self.segments, self.end_offset)
        else:
            work = self.pending_flush()
        if work is not None:
            work.run()
            self.flushed(work)
        self.durability.mark.remove()
        self.release()

    def release(self) -> None:
        """Close every file without writing anything."""
        self.reader.forget()
        for segment in self.segments:
            segment.close()

    # --- identity ------------------------------------------------------------------------------

    def write_topic_id(self, topic_id: UUID) -> None:
        """Write partition.metadata; a flush syncs it."""
        self.topic_id = topic_id
        file = self.disk.open(f"{self.path}/{PARTITION_METADATA}", create=True)
        try:
            file.truncate(0)
            file.write(0, encode_topic_id(topic_id))
        finally:
            file.close()
        self.durability.directory_changed(new=True)

    def take_place_of(self, source: "Log", path: str) -> None:
        """This copy has all records of `source`, and its directory is now called `path`."""
        self.path = path
        self.durability.renamed(path)
        self.snapshots.renamed(path)
        for segment in self.segments:
            segment.renamed(path)
        self.config = source.config
        self.start_offset = max(source.start_offset, self.segments[0].base_offset)
        self.high_watermark = source.high_watermark
        for epoch, start in source.epochs.entries:
            if epoch > self.epochs.latest:
                self.epochs.begin(epoch, start)
        self.producers = source.producers  # only the source knows producers without records
        self.reader.sparse = self.reader.sparse or source.reader.sparse
