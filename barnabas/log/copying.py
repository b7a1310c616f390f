"""Fills a log with batches that have their offsets already: those of another log.

In: whole batches as they are in a log. Out: the same bytes here, and all that is derived from them.
Always: offsets only grow; a batch below the end is one that is here already, and is left out.
Not here: who copies, and when the copy is whole (the broker).
"""

from barnabas.log.index import RELATIVE_OFFSET_MAX
from barnabas.log.segment import Segment
from barnabas.log.swapping import Swapping
from barnabas.model.errors import Code, Failed
from barnabas.wire.batch import BatchHeader, check_crc
from barnabas.wire.records import iter_batches


class Copying(Swapping):
    """The verbs that make a log the same as another."""

    def start_at(self, offset: int) -> None:
        """Let an empty log begin there."""
        assert not self.size, "only an empty log has no beginning"
        for segment in self.segments:
            segment.remove_files()
        self.segments[:] = [self._new_segment(offset)]
        self._active = self.segments[-1]
        self._reader.forget()
        self.start_offset = self.end_offset = self.high_watermark = offset
        self._durability.directory_changed()

    def append_copied(self, data: bytes, wall_ms: int) -> None:
        """Batches as another log has them; one that does not fit its checksum is refused."""
        for header, batch in iter_batches(data):
            if header.base_offset + header.last_offset_delta < self.end_offset:
                continue
            check_crc(batch, header)
            self._append_as_it_is(header, batch, wall_ms)

    def _append_as_it_is(self, header: BatchHeader, batch: memoryview, wall_ms: int) -> None:
        size = header.size
        last_offset = header.base_offset + header.last_offset_delta
        try:
            if not self.size and header.base_offset < self._active.base_offset:
                self.start_at(header.base_offset)  # its first batch holds the start of the log
            segment = self._room_for(size, last_offset, header.max_timestamp, wall_ms)
            interval = self.config.index_interval_bytes
            segment.append(batch, size, last_offset, header.max_timestamp, interval)
        except OSError as error:
            raise Failed(Code.KAFKA_STORAGE_ERROR, f"{self._active.path}: {error}") from error
        if header.leader_epoch > self.epochs.latest:
            self.epochs.begin(header.leader_epoch, header.base_offset)
        self.producers.replay(header)
        self.end_offset = last_offset + 1
        self.size += size

    def _room_for(self, size: int, last_offset: int, max_timestamp: int, wall_ms: int) -> Segment:
        segment = self._segment_for(size, last_offset, max_timestamp, wall_ms)
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:  # empty, and too far back
            self.skip_to(last_offset)
            segment = self._segment_for(size, last_offset, max_timestamp, wall_ms)
        return segment

    def skip_to(self, offset: int) -> None:
        """Let the log end there, with nothing in between: the other's last batches are gone."""
        if offset <= self.end_offset:
            return
        if self._active.size:
            self._active.seal()
        else:
            self.segments.pop().remove_files()
        self.segments.append(self._new_segment(offset))
        self._active = self.segments[-1]
        self._reader.forget()
        self.end_offset = offset
        self._durability.directory_changed()
