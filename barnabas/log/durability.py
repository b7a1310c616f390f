"""Knows which part of a log would survive a power loss, and what must be synced for more.

In: what the log did to its files. Out: Flush (work for another thread), the recovery point.
Always: everything below `durable_offset` survives; recovery from `recovery_point` on finds
every file before it synced, indexes and snapshots included. A roll whose snapshot is not written
yet holds the recovery point back: the segment before it counts as not durable.
Not here: the syncs themselves (flush.py), when to flush (the broker).
"""

from barnabas.log.directory.checkpoints import PARTITION_METADATA, encode_epochs
from barnabas.log.epochs import FILE_NAME as EPOCHS_FILE
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.flush import Flush
from barnabas.log.producers.snapshots import ProducerSnapshots
from barnabas.log.segments.segment import Segment
from barnabas.log.sync_mark import SyncMark
from barnabas.model.ports import Disk


class Durability:
    """One log's syncs, due and done."""

    __slots__ = (
        "_directory_synced",
        "_directory_version",
        "_disk",
        "_epochs",
        "_new",
        "_path",
        "_snapshots",
        "cuts",
        "durable_offset",
        "mark",
        "recovery_point",
        "rewrite",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        snapshots: ProducerSnapshots,
        epochs: LeaderEpochs,
        recovery_point: int,
        new: bool,
    ) -> None:
        self._disk = disk
        self._path = path
        self._snapshots = snapshots
        self._epochs = epochs
        self._new = new  # the directory's own name and the topic id are not synced yet
        self._directory_version = 1 if new else 0
        self._directory_synced = 0
        self.mark = SyncMark(disk, path)
        self.cuts = 0
        self.rewrite = False  # a sync found no room: what is not durable may not be in the file
        self.recovery_point = recovery_point
        self.durable_offset = recovery_point

    def directory_changed(self, *, new: bool = False) -> None:
        """A file was made in it; `new`: the topic id was written."""
        self._directory_version += 1
        self._new = self._new or new

    def renamed(self, path: str) -> None:
        """The directory has another name, which is not synced yet."""
        self._path = self.mark.directory = path
        self.directory_changed(new=True)

    def save_epochs(self) -> None:
        """Now, and synced."""
        epochs = self._epochs
        if epochs.dirty:
            data = encode_epochs(epochs.entries)
            self._disk.replace_file(f"{self._path}/{EPOCHS_FILE}", data)
            epochs.saved_version = epochs.version

    def found_no_room(self) -> None:
        """A sync has failed for lack of room."""
        self.rewrite = True

    def write_again(self, segments: list[Segment], end: int) -> None:
        """A sync of an earlier process did not succeed: what is not durable may not be on its way
        to the disk any more. No other code may use the log meanwhile."""
        self.rewrite = True
        flush = self.pending(segments, end, sealed_only=False)
        if flush is not None:
            flush.write_again()
        self.rewrite = False

    def cut(self, end: int, active: Segment) -> None:
        """The log was truncated, and that was synced; the result of a running flush is ignored."""
        self.cuts += 1
        self.durable_offset = min(self.durable_offset, end)
        self.recovery_point = min(self.recovery_point, _inside(end, active.base_offset))

    def pending(self, segments: list[Segment], end: int, *, sealed_only: bool) -> Flush | None:
        """What to sync; None if nothing is due."""
        active = segments[-1]
        synced_to = active.base_offset if sealed_only else end
        flush = Flush(self._disk, self.mark, synced_to, active.base_offset)
        flush.cuts = self.cuts
        flush.rewrite = self.rewrite
        flush.confirms = not (self.rewrite and sealed_only)
        flush.recovery_limit = min(self._snapshots.pending, default=flush.recovery_limit)
        nothing = True
        for segment in reversed(segments):
            if segment is active:
                if sealed_only or (self.durable_offset >= end and not self._new):
                    continue
                durable_bytes = self._durable_bytes(segment) if self.rewrite else 0
                flush.add_segment(segment, sealed=False, durable_bytes=durable_bytes)
            elif segment.durable:
                break
            else:
                flush.add_segment(segment, sealed=True)
            nothing = False
        if self._snapshots.unsynced:
            flush.snapshots = list(self._snapshots.unsynced)
            for offset in flush.snapshots:
                flush.add_file(self._snapshots.path(offset))
            nothing = False
        if self._epochs.dirty:
            data = encode_epochs(self._epochs.entries)
            flush.add_epochs(f"{self._path}/{EPOCHS_FILE}", data, self._epochs.version)
            nothing = False
        if self._directory_version != self._directory_synced:
            flush.directory_version = self._directory_version
            if self._new:
                flush.add_file(f"{self._path}/{PARTITION_METADATA}")
            flush.add_directory(self._path)
            if self._new:
                flush.add_directory(self._path.rpartition("/")[0])
            nothing = False
        return None if nothing else flush

    def _durable_bytes(self, active: Segment) -> int:
        """Where the first batch of the active segment begins that is not durable."""
        if self.durable_offset <= active.base_offset:
            return 0
        found = active.locate(self.durable_offset)
        return active.size if found is None else found[0]

    def closing(self, segments: list[Segment], end: int) -> Flush:
        """All that is due, and the active segment with its indexes."""
        flush = self.pending(segments, end, sealed_only=False)
        if flush is None:
            flush = Flush(self._disk, self.mark, end, end)
            flush.cuts = self.cuts
            flush.rewrite = self.rewrite
        flush.add_segment(segments[-1], sealed=True)
        flush.active_base = end
        return flush

    def flushed(self, flush: Flush) -> int:
        """The work is done; the durable offset now."""
        if flush.cuts != self.cuts:
            return self.durable_offset  # the records it synced may have been truncated since
        for segment in flush.sealed:
            segment.durable = segment.next_offset < flush.recovery_limit
        self.rewrite = self.rewrite and not (flush.rewrite and flush.confirms)
        unsynced = self._snapshots.unsynced
        self._snapshots.unsynced = [each for each in unsynced if each not in flush.snapshots]
        self._epochs.saved_version = max(self._epochs.saved_version, flush.epochs_version)
        if flush.directory_version >= 0:
            self._directory_synced = max(self._directory_synced, flush.directory_version)
            self._new = False
        end = flush.end_offset
        self.durable_offset = max(self.durable_offset, end)
        point = min(_inside(end, flush.active_base), flush.recovery_limit - 1)
        self.recovery_point = max(self.recovery_point, point)
        return self.durable_offset


def _inside(end: int, active_base: int) -> int:
    """A recovery point inside the active segment, not at its end.

    Its indexes are not synced, so recovery must look at it, also if it has been sealed since.
    """
    return end - 1 if active_base < end else end
