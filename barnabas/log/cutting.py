"""Makes a log shorter, at its front or at its end.

In: offsets, wall time. Out: files to remove once the new start is on disk; why each segment went.
Always: a log whose first files are gone has a start that says so, on disk, before they go.
Not here: which segments are too old (retention.py).
"""

from barnabas.log.appending import Appending
from barnabas.log.producers import ProducerStates
from barnabas.log.retention import expired
from barnabas.log.scan import headers
from barnabas.log.segment import Segment
from barnabas.log.state import Deletion
from barnabas.model.errors import Code, InvalidRequest

BELOW_START = "below the log start"


class Cutting(Appending):
    """The verbs that make a log shorter."""

    def apply_retention(self, wall_ms: int) -> int:
        """Let go of segments that are too old or too many; how many.

        If that is all of them, the active one is rolled first: a log always has a segment.
        """
        segments, watermark = self.segments, self.high_watermark
        causes = expired(segments, self.start_offset, watermark, self.config, self._disk, wall_ms)
        if not causes:
            return 0
        if len(causes) == len(segments):
            try:
                self.roll(wall_ms)
            except OSError:  # no room for a new one: what else is too old still goes
                causes.pop()
        for segment, cause in zip(segments, causes, strict=False):
            self._causes[segment.base_offset] = cause
        self._raise_start(segments[len(causes)].base_offset)
        return len(causes)

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
        self._raise_start(offset)

    def _raise_start(self, offset: int) -> None:
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
            self._tell_deleted(segment, self._causes.pop(segment.base_offset, BELOW_START))
        self._doomed += self._snapshots.forget_below(self.segments[0].base_offset)

    def _tell_deleted(self, segment: Segment, cause: str) -> None:
        self.deletions.append(
            Deletion(self.partition, segment.base_offset, segment.next_offset, segment.size, cause)
        )

    def take_doomed(self) -> list[str]:
        """Files to remove once the start of the log has been checkpointed."""
        self._drop_dead_segments()
        doomed, self._doomed = self._doomed, []
        return doomed

    def take_deletions(self) -> list[Deletion]:
        deletions, self.deletions = self.deletions, []
        return deletions

    def truncate_to(self, offset: int, *, sync: bool = True) -> None:
        """Cut everything from `offset` on, and all that was derived from it; synced, and so slow.

        Checkpoint the directory before the next append: the recovery point has gone back.
        Without `sync` a power loss may bring back what was cut, until the next flush: for a log
        whose leader would find that it differs.
        """
        if offset >= self.end_offset:
            return
        self._reader.forget()
        # Snapshots first: one that outlives its records would bring back their producers.
        if self._snapshots.remove_above(offset) and sync:
            self._disk.sync_directory(self.path)
        anew = offset < self.start_offset  # nothing of the log is left then
        fresh = self._new_segment(offset) if anew else None  # first: there may be no room for it
        while self.segments and (anew or len(self.segments) > 1):
            if not anew and self.segments[-1].base_offset < offset:
                break
            self.segments.pop().remove_files()
        if fresh is not None:
            self.start_offset = offset
            self.segments.append(fresh)
        self._active = active = self.segments[-1]
        active.durable = False  # perhaps sealed and synced before; it is written to again
        active.truncate_to(offset)
        if sync:  # a record that was cut must not come back with a power loss
            active.file().sync()
            self._disk.sync_directory(self.path)
        else:
            self._durability.directory_changed()
        self.end_offset = active.next_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self.cleaned_to = min(self.cleaned_to, self.end_offset)
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
