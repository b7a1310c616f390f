"""Appends batches to a log, and rolls to the next segment where Kafka would.

In: batches as clients sent them, wall time. Out: offsets, or an error that changed nothing.
Always: whole batches only; offsets are handed out without a gap; nothing here syncs.
Not here: refusals in words (checks.py), the files of a segment (segment.py).
"""

from struct import Struct

from barnabas.log.checks import check_records, refusal
from barnabas.log.index import RELATIVE_OFFSET_MAX
from barnabas.log.segment import Segment
from barnabas.log.state import Appended, LogState
from barnabas.model.errors import Code, Failed
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
from barnabas.wire.checksum import crc32c

_MAX_TIMESTAMP_POSITION = 35
_PLACE = Struct(">qii")  # base offset, length, leader epoch: the fields the checksum leaves out
_unpack_header = HEADER.unpack_from
_pack_place = _PLACE.pack_into
_pack_crc = Struct(">I").pack_into
_pack_attributes = Struct(">h").pack_into
_pack_timestamp = Struct(">q").pack_into


class Appending(LogState):
    """The verbs that make a log longer."""

    def append(
        self, batch: memoryview, leader_epoch: int, wall_ms: int, *, ours: bool = False
    ) -> Appended:
        """One batch from a client, as its leader: checked, stamped in place, written.

        `ours`: made a moment ago by this broker: a whole batch of records with keys.
        """
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
            size > config.max_message_bytes
            or size > config.segment_bytes
            or (
                not ours
                and (
                    length + LENGTH_OVERHEAD != size
                    or magic != MAGIC
                    or given_offset
                    or not 0 <= attributes <= 4  # a codec and nothing else
                    or record_count < 1
                    or record_count != last_delta + 1
                    or (producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0))
                    or crc32c(batch[ATTRIBUTES_POSITION:]) != crc
                )
            )
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
        if config.compacted and not ours:
            check_records(batch, config, wall_ms)
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
            self.on_roll()
        return segment

    def _undo_roll(self, segment: Segment) -> None:
        """An empty file left behind would pass for the end of the log at the next start."""
        self._durability.directory_changed()
        try:
            segment.remove_files()
            self._snapshots.remove(segment.base_offset)
        except OSError as error:
            self._failed = f"{segment.path}: cannot undo a failed roll: {error}"

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
