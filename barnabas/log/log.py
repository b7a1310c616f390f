"""One partition's log: appends, reads, cuts, and what must be synced.

In: batches as clients sent them, offsets, wall time. Out: offsets, file slices, errors.
Always: start_offset <= high_watermark <= end_offset; the high watermark never goes back
but for a truncation; whole batches only; offsets are handed out without a gap.
Always: nothing here syncs on the way of an append; a roll leaves work for `pending_flush`.
Not here: opening and damage (recovery.py), slices (reading.py), syncs (durability.py),
refusals in words (checks.py), who leads.
"""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from crc32c import crc32c

from barnabas.log import lookup
from barnabas.log.checkpoints import PARTITION_METADATA, encode_topic_id
from barnabas.log.checks import refusal
from barnabas.log.config import LogConfig
from barnabas.log.durability import Durability
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.findings import Finding
from barnabas.log.flush import Flush
from barnabas.log.index import RELATIVE_OFFSET_MAX
from barnabas.log.producers import ProducerStates
from barnabas.log.reading import Reader, Slice
from barnabas.log.scan import headers
from barnabas.log.segment import Segment
from barnabas.log.snapshots import Snapshots
from barnabas.log.warm import WarmSegments
from barnabas.model.errors import Code, Failed, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk
from barnabas.wire.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
)

_MAX_TIMESTAMP_POSITION = 35
_PLACE = Struct(">qii")  # base offset, length, leader epoch: the fields the checksum leaves out
_unpack_header = HEADER.unpack_from
_pack_place = _PLACE.pack_into
_pack_crc = Struct(">I").pack_into
_pack_attributes = Struct(">h").pack_into
_pack_timestamp = Struct(">q").pack_into


class Appended(NamedTuple):
    """Where a batch is; `append_time_ms` is -1 unless the topic stamps its records."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    duplicate: bool


class LogParts(NamedTuple):
    """What opening found on disk; a Log is made of it."""

    segments: list[Segment]
    start_offset: int
    high_watermark: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: Snapshots
    findings: list[Finding]
    new: bool


class Log:
    """Ask for attributes freely; change the log only through its methods."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        warm: WarmSegments,
        parts: LogParts,
    ) -> None:
        self._disk = disk
        self._warm = warm
        self.path = path
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = parts.segments
        self.start_offset = parts.start_offset
        self.high_watermark = parts.high_watermark
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.findings = parts.findings
        self.size = sum(segment.size for segment in parts.segments)
        self.on_roll: Callable[[Log], None] | None = None
        self._snapshots = parts.snapshots
        self._active = parts.segments[-1]
        self._reader = Reader(parts.segments)
        self._durability = Durability(
            disk, path, parts.snapshots, parts.epochs, parts.recovery_point, parts.new
        )
        self.end_offset = self._active.next_offset
        self._doomed: list[str] = []
        self._failed = ""

    def __repr__(self) -> str:
        return f"Log({self.partition}, {self.start_offset}..{self.end_offset})"

    # --- appending -----------------------------------------------------------------------------

    def append(self, batch: memoryview, leader_epoch: int, wall_ms: int) -> Appended:
        """One batch from a client, as its leader: checked, stamped in place, written."""
        size = len(batch)
        config = self.config
        if size < HEADER_SIZE:
            raise refusal(batch, config, wall_ms)
        (
            given_offset,
            length,
            _,
            magic,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        ) = _unpack_header(batch)
        if (
            length + LENGTH_OVERHEAD != size
            or magic != MAGIC
            or given_offset
            or not 0 <= attributes <= 4  # a codec and nothing else
            or record_count < 1
            or record_count != last_delta + 1
            or size > config.max_message_bytes
            or size > config.segment_bytes
            or (producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0))
            or crc32c(batch[ATTRIBUTES_POSITION:]) != crc
        ):
            raise refusal(batch, config, wall_ms)
        append_time = -1
        if config.timestamp_type == "create":
            if (
                max_timestamp < base_timestamp
                or base_timestamp < NO_TIMESTAMP
                or max_timestamp - wall_ms > config.timestamp_after_max_ms
                or (
                    wall_ms - base_timestamp > config.timestamp_before_max_ms
                    and base_timestamp >= 0
                )
            ):
                raise refusal(batch, config, wall_ms)
        else:
            append_time = max_timestamp = wall_ms
        if producer_id >= 0:
            repeat = self.producers.check(producer_id, producer_epoch, base_sequence, record_count)
            if repeat is not None:
                time = repeat.timestamp if append_time >= 0 else -1
                return Appended(repeat.base_offset, repeat.last_offset, time, True)

        base_offset = self.end_offset
        last_offset = base_offset + last_delta
        segment = self._active
        first_timestamp = segment.first_timestamp
        try:
            if (
                segment.entries_left < 1
                or segment.size + size > config.segment_bytes
                or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
                or (
                    max_timestamp - first_timestamp
                    if first_timestamp >= 0
                    else wall_ms - segment.created_ms
                )
                > config.segment_ms - segment.jitter_ms
            ):
                segment = self._segment_for(size, last_offset, max_timestamp, wall_ms)
        except OSError as error:  # nothing of the batch has been written
            raise Failed(Code.KAFKA_STORAGE_ERROR, f"{self._active.path}: {error}") from error
        try:
            _pack_place(batch, 0, base_offset, length, leader_epoch)
            if append_time >= 0:
                _pack_attributes(batch, ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
                _pack_timestamp(batch, _MAX_TIMESTAMP_POSITION, wall_ms)
                _pack_crc(batch, CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))
            segment.append(batch, size, last_offset, max_timestamp, config.index_interval_bytes)
        except OSError as error:
            raise self._write_failed(error) from error
        if leader_epoch != self.epochs.latest:
            self.epochs.begin(leader_epoch, base_offset)
        if producer_id >= 0:
            self.producers.record(
                producer_id,
                producer_epoch,
                base_sequence,
                base_offset,
                last_offset,
                max_timestamp,
            )
        self.end_offset = last_offset + 1
        self.size += size
        return Appended(base_offset, last_offset, append_time, False)

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

    def _segment_for(
        self, size: int, last_offset: int, max_timestamp: int, wall_ms: int
    ) -> Segment:
        """The active segment made ready, or a new one where Kafka would roll."""
        if self._failed:
            raise Failed(Code.KAFKA_STORAGE_ERROR, self._failed)
        config, segment = self.config, self._active
        if not segment.entries_left:
            if not segment.jitter_ms:
                segment.jitter_ms = self._jitter(segment.base_offset)
            segment.prepare(config, wall_ms)
        first = segment.first_timestamp
        waited = max_timestamp - first if first >= 0 else wall_ms - segment.created_ms
        if segment.size and (
            segment.entries_left < 1
            or segment.size + size > config.segment_bytes
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or waited > config.segment_ms - segment.jitter_ms
        ):
            return self.roll(wall_ms)
        return segment

    def roll(self, wall_ms: int) -> Segment:
        """Seal the active segment and start the next at the end of the log.

        If that fails, the files of the next are gone again and the old one stays active.
        """
        old = self._active
        base = self.end_offset
        assert old.size, "an empty segment is never rolled"
        interval = self.config.index_interval_bytes
        segment = Segment(self._disk, self.path, base, 0, self._warm, self.findings, interval)
        segment.jitter_ms = self._jitter(base)
        try:
            old.seal()
            old.close()
            self._snapshots.write(self.producers, base)
            segment.create_files()
            segment.prepare(self.config, wall_ms)
        except OSError:
            old.close()  # the next append makes it ready again
            self._undo_roll(segment)
            raise
        self.segments.append(segment)
        self._active = segment
        self._reader.rolled(segment)
        self._durability.directory_changed()
        if self.on_roll is not None:
            self.on_roll(self)
        return segment

    def _undo_roll(self, segment: Segment) -> None:
        """An empty file left behind would pass for the end of the log at the next start."""
        self._durability.directory_changed()
        try:
            segment.remove_files()
            self._snapshots.remove(segment.base_offset)
        except OSError as error:
            self._failed = f"{segment.path}: cannot undo a failed roll: {error}"

    def _new_segment(self, base_offset: int) -> Segment:
        interval = self.config.index_interval_bytes
        return Segment.create(
            self._disk, self.path, base_offset, self._warm, self.findings, interval
        )

    def _jitter(self, base_offset: int) -> int:
        """Spread over partitions and segments, and the same again in every run."""
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return crc32c(f"{self.partition} {base_offset}".encode()) % limit if limit > 0 else 0

    def _write_failed(self, error: OSError) -> Failed:
        """A batch that was not written whole must leave nothing behind."""
        segment = self._active
        try:
            segment.cut_to_size()
        except OSError as second:
            self._failed = f"{segment.path}: cannot undo a failed write: {second}"
            segment.entries_left = 0  # the next append goes through `_segment_for`, and stops
        return Failed(Code.KAFKA_STORAGE_ERROR, f"{segment.path}: {error}")

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, limit: int, min_one: bool = True) -> Slice:
        """Whole batches below `limit`, from the one that holds `offset`, of one segment."""
        end = self.end_offset
        limit = min(limit, end)
        if offset < self.start_offset or offset > end:
            raise self._out_of_range(offset)
        if offset >= limit:
            return Slice(None, offset)
        return self._reader.read(offset, bytes_max, limit, min_one)

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

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: the epoch at or below, and where it ends; (-1, -1) if unknown."""
        return self.epochs.end_of(leader_epoch, self.end_offset)

    # --- cutting -------------------------------------------------------------------------------

    def delete_before(self, offset: int) -> None:
        """Raise the start of the log; segments wholly below it go with a checkpoint.

        Not before: a log whose first files are gone looks like one that a crash has beheaded,
        unless the new start is on disk.
        """
        if offset > self.high_watermark or offset < 0:
            raise InvalidRequest(
                Code.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: cannot delete before {offset}, the high watermark is "
                f"{self.high_watermark}",
            )
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.epochs.truncate_start(offset)
        self._reader.forget()
        self._drop_dead_segments()

    def _drop_dead_segments(self) -> None:
        """Those wholly below the start, if the snapshot behind them is surely on disk."""
        start = min(self.start_offset, self.recovery_point)
        if len(self.segments) < 2 or self.segments[1].base_offset > start:
            return
        while len(self.segments) > 1 and self.segments[1].base_offset <= start:
            segment = self.segments.pop(0)
            self.size -= segment.size
            segment.close()
            self._doomed += segment.paths
        self._doomed += self._snapshots.forget_below(self.segments[0].base_offset)

    def take_doomed(self) -> list[str]:
        """Files to remove once the start of the log has been checkpointed."""
        self._drop_dead_segments()
        doomed, self._doomed = self._doomed, []
        return doomed

    def truncate_to(self, offset: int) -> None:
        """Cut everything from `offset` on, and all that was derived from it; synced, and so slow.

        Checkpoint the directory before the next append: the recovery point has gone back.
        """
        if offset >= self.end_offset:
            return
        self._reader.forget()
        # Snapshots first: one that outlives its records would bring back their producers.
        if self._snapshots.remove_above(offset):
            self._disk.sync_directory(self.path)
        anew = offset < self.start_offset  # nothing of the log is left then
        while self.segments and (anew or len(self.segments) > 1):
            if not anew and self.segments[-1].base_offset < offset:
                break
            self.segments.pop().remove_files()
        if anew:
            self.start_offset = offset
            self.segments.append(self._new_segment(offset))
        self._active = active = self.segments[-1]
        active.durable = False  # perhaps sealed and synced before; it is written to again
        active.truncate_to(offset)
        # A record that was cut must not come back with a power loss.
        active.file().sync()
        self._disk.sync_directory(self.path)
        self.end_offset = active.next_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self.size = sum(segment.size for segment in self.segments)
        self.epochs.truncate_end(self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self._durability.cut(self.end_offset, active)
        self.producers = self._rebuilt_producers()

    def _rebuilt_producers(self) -> ProducerStates:
        """The newest snapshot and the headers behind it."""
        end = self.end_offset
        states, offset = self._snapshots.load_newest(end, self.findings)
        offset = max(offset, self.segments[0].base_offset)
        for segment in self.segments[self._reader.segment_at(offset) :]:
            found = segment.locate(offset)
            if found is not None:
                for _, header in headers(segment.file(), found[0], segment.size, 1 << 16):
                    states.replay(header)
        return states

    # --- durability ----------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """Where recovery starts after a crash."""
        return self._durability.recovery_point

    @property
    def durable_offset(self) -> int:
        """Everything below survives a power loss."""
        return self._durability.durable_offset

    def pending_flush(self, *, sealed_only: bool = False) -> Flush | None:
        """What to sync for everything (or every sealed segment) to be durable; None if it is.

        Take it, run it in any thread, and hand it to `flushed`.
        """
        return self._durability.pending(self.segments, self.end_offset, sealed_only=sealed_only)

    def flushed(self, flush: Flush) -> int:
        """The work is done. Everything below the offset returned survives a power loss."""
        return self._durability.flushed(flush)

    def flush(self) -> int:
        """Sync now, on the calling path. Everything below the offset returned is durable."""
        work = self.pending_flush()
        if work is not None:
            work.run()
            self.flushed(work)
        return self.durable_offset

    def close(self) -> None:
        """Leave files that open again without a look at the data."""
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
