"""Fills a log with batches that have their offsets already: those of another log.

In: whole batches as they are in a log. Out: the same bytes here, and all that is derived from them.
Always: offsets only grow; a batch below the end is one that is here already, and is left out.
Not here: who copies, and when the copy is whole (the broker).
"""

from barnabas.log.index import RELATIVE_OFFSET_MAX
from barnabas.log.producers import ProducerStates
from barnabas.log.segment import Segment
from barnabas.log.swapping import Swapping
from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer
from barnabas.wire.batch import BatchHeader, check_crc, read_header
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

    def append_fetched(self, data: Buffer, wall_ms: int) -> int:
        """Batches that a leader sent, checked and written from where they were received.

        How many bytes were new. They go on from the end of this log, or leave a hole where
        compaction made one; Corrupt if they do not, or if anything else about them is wrong.
        With one write, where they fit into the active segment.
        """
        view = memoryview(data)
        found: list[BatchHeader] = []
        expected = self.end_offset
        begin = position = 0
        while position < len(view):
            header = read_header(view, position)
            last_offset = header.base_offset + header.last_offset_delta
            if last_offset < expected and not found:  # here already
                begin = position = position + header.size
                continue
            if header.last_offset_delta < 0 or (
                header.base_offset < expected and (found or self.size)
            ):
                raise Corrupt(
                    f"{self.partition}: batch {header.base_offset} to {last_offset} was sent, "
                    f"{expected} is next"
                )
            check_crc(view, header, position)
            found.append(header)
            expected = last_offset + 1
            position += header.size
        if found:
            self._append_run(found, view[begin:], wall_ms)
        return position - begin

    def _append_run(self, found: list[BatchHeader], data: memoryview, wall_ms: int) -> None:
        first, last = found[0], found[-1]
        segment = self._active
        timestamps = [header.max_timestamp for header in found]
        began = segment.first_timestamp if segment.size else timestamps[0]
        if (
            segment.entries_left <= len(found)
            or segment.size + len(data) > self.config.segment_bytes
            or last.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or first.base_offset < segment.base_offset
            or (max(timestamps) - began if began >= 0 else wall_ms - segment.created_ms)
            > self.config.segment_ms - segment.jitter_ms
        ):
            position = 0
            for header in found:  # rolls where it must
                self._append_as_it_is(header, data[position : position + header.size], wall_ms)
                position += header.size
            return
        written = [(each.size, each.last_offset, each.max_timestamp) for each in found]
        try:
            segment.extend(data, written, self.config.index_interval_bytes)
        except OSError as error:
            raise self._write_failed(error) from error
        for header in found:
            self._derive(header)
        self.end_offset = last.last_offset + 1
        self.size += len(data)

    def _derive(self, header: BatchHeader) -> None:
        if header.leader_epoch > self.epochs.latest:
            self.epochs.begin(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            self.producers.replay(header)
        if not header.record_count:
            self._reader.sparse = True

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
            raise self._write_failed(error) from error
        self._derive(header)
        self.end_offset = last_offset + 1
        self.size += size

    def _room_for(self, size: int, last_offset: int, max_timestamp: int, wall_ms: int) -> Segment:
        segment = self._segment_for(size, last_offset, max_timestamp, wall_ms)
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:  # empty, and too far back
            self.skip_to(last_offset)
            segment = self._segment_for(size, last_offset, max_timestamp, wall_ms)
        return segment

    def take_place_of(self, source: "Copying", path: str) -> None:
        """This copy has all records of `source`, and its directory is called `path` now."""
        self.path = path
        self._durability.renamed(path)
        self._snapshots.renamed(path)
        for segment in self.segments:
            segment.renamed(path)
        self.config = source.config
        self.start_offset = max(source.start_offset, self.segments[0].base_offset)
        self.high_watermark = source.high_watermark
        for epoch, start in source.epochs.entries:
            if epoch > self.epochs.latest:
                self.epochs.begin(epoch, start)
        self.producers = source.producers  # those whose records are gone are known there only
        self._reader.sparse = self._reader.sparse or source._reader.sparse

    def restart_at(self, offset: int) -> None:
        """Let everything go and begin there: the other log no longer has what would follow."""
        fresh = self._new_segment(offset)  # first: there may be no room for it
        for segment in self.segments:
            segment.remove_files()
        self._snapshots.remove_above(-1)
        self.segments[:] = [fresh]
        self._active = self.segments[-1]
        self._reader.forget()
        self.epochs.clear()
        self.producers = ProducerStates()
        self.start_offset = self.end_offset = self.high_watermark = offset
        self.cleaned_to = self.size = 0
        self._durability.cut(offset, self._active)
        self._durability.directory_changed()

    def skip_to(self, offset: int) -> None:
        """Let the log end there, with nothing in between: the other's last batches are gone."""
        if offset <= self.end_offset:
            return
        fresh = self._new_segment(offset)  # first: there may be no room for it
        if self._active.size:
            self._active.seal()
        else:
            self.segments.pop().remove_files()
        self.segments.append(fresh)
        self._active = self.segments[-1]
        self._reader.forget()
        self.end_offset = offset
        self._durability.directory_changed()
