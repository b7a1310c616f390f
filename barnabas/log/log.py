"""One partition's log: appends, reads, cuts, and what must be synced.

In: batches as clients sent them, offsets, wall time. Out: offsets, file slices, errors.
Always: start_offset <= high_watermark <= end_offset; the high watermark never goes back
but for a truncation; whole batches only.
Always: nothing here syncs on the way of an append; a roll leaves work for `pending_flush`.
Not here: opening and damage (recovery.py), slices (reading.py), syncs (durability.py),
refusals in words (checks.py), who leads.
"""

from uuid import UUID

from barnabas.log import lookup
from barnabas.log.checkpoints import PARTITION_METADATA, encode_topic_id
from barnabas.log.copying import Copying
from barnabas.log.flush import Flush
from barnabas.log.reading import Slice
from barnabas.log.state import Appended, Deletion, LogParts
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ports import FileSlice

HOT_BYTES = 16 << 20

__all__ = ["Appended", "Deletion", "Log", "LogParts"]


class Log(Copying):
    """Ask for attributes freely; change the log only through its methods."""

    # --- leading -------------------------------------------------------------------------------

    def begin_epoch(self, leader_epoch: int, *, durable: bool = False) -> None:
        """This broker leads from here on; known before the first record of the epoch.

        `durable`: on disk now, not with the next flush, so that no power loss can bring the
        epoch's number back; for a start, while no flush is under way.
        """
        self.epochs.begin(leader_epoch, self.end_offset)
        if durable:
            self._durability.save_epochs()

    def advance_high_watermark(self, offset: int) -> int:
        """Up to `offset`, never back, never past the end; the watermark as it is now."""
        offset = min(offset, self.end_offset)
        self.high_watermark = max(self.high_watermark, offset)
        return self.high_watermark

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, limit: int, min_one: bool = True) -> Slice:
        """Whole batches below `limit`, from the one that holds `offset`, of one segment."""
        end = self.end_offset
        limit = min(limit, end)
        if offset < self.start_offset or offset > end:
            raise self._out_of_range(offset)
        if offset >= limit or (bytes_max <= 0 and not min_one):
            return Slice(None, offset)  # without a look at its files
        return self._reader.read(offset, bytes_max, limit, min_one)

    def is_cold(self, found: FileSlice) -> bool:
        """May reading it wait for the disk? What was written last is in memory for sure."""
        active = self._active
        if found.file is active.open_file and active.size - found.position <= HOT_BYTES:
            return False
        return not found.file.cached(found.position, found.length)

    def _out_of_range(self, offset: int) -> InvalidRequest:
        return InvalidRequest(
            Code.OFFSET_OUT_OF_RANGE,
            f"{self.partition}: offset {offset} is outside {self.start_offset} to "
            f"{self.end_offset}; seek to the beginning or the end",
        )

    def find_time(self, timestamp: int) -> lookup.Found | None:
        """The first record at or after `timestamp`."""
        return lookup.find_time(self.segments, timestamp, self.start_offset)

    def find_max_timestamp(self) -> lookup.Found | None:
        """The first record with the largest timestamp of all."""
        return lookup.find_max_timestamp(self.segments, self.start_offset)

    def time_slice(self, timestamp: int | None) -> FileSlice | None:
        """What a search by time (None: for the largest) would read first, still in its file."""
        return lookup.time_slice(self.segments, timestamp, self.start_offset)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: the epoch at or below, and where it ends; (-1, -1) if unknown."""
        return self.epochs.end_of(leader_epoch, self.end_offset)

    # --- durability ----------------------------------------------------------------------------

    def pending_flush(self, *, sealed_only: bool = False) -> Flush | None:
        """What to sync for everything (or every sealed segment) to be durable; None if it is.

        Take it, run it in any thread, and hand it to `flushed`.
        """
        return self._durability.pending(self.segments, self.end_offset, sealed_only=sealed_only)

    def flushed(self, flush: Flush) -> int:
        """The work is done. Everything below the offset returned survives a power loss."""
        return self._durability.flushed(flush)

    def sync_found_no_room(self) -> None:
        """The next flush writes again what is not durable, before it syncs."""
        self._durability.found_no_room()

    def flush(self) -> int:
        """Sync now, on the calling path. Everything below the offset returned is durable."""
        work = self.pending_flush()
        if work is not None:
            work.run()
            self.flushed(work)
        return self.durable_offset

    def close(self) -> None:
        """Leave files that open again without a look at the data."""
        if not self.size and not self.end_offset:
            self.release()  # nothing would be lost with them: a thousand such are not synced
            return
        if self.size and self.end_offset not in self._snapshots.offsets:
            self._snapshots.write(self.producers, self.end_offset)
            self._durability.directory_changed()
        active = self._active
        touched = active.entries_left > 0 or self.recovery_point < self.end_offset
        active.seal()
        if touched:
            work: Flush | None = self._durability.closing(self.segments, self.end_offset)
        else:
            work = self.pending_flush()
        if work is not None:
            work.run()
            self.flushed(work)
        self.release()

    def release(self) -> None:
        """Give every file back without writing anything."""
        self._reader.forget()
        for segment in self.segments:
            segment.close()

    def write_topic_id(self, topic_id: UUID) -> None:
        """Which topic this is; a flush syncs it."""
        self.topic_id = topic_id
        file = self._disk.open(f"{self.path}/{PARTITION_METADATA}", create=True)
        try:
            file.truncate(0)
            file.write(0, encode_topic_id(topic_id))
        finally:
            file.close()
        self._durability.directory_changed(new=True)
