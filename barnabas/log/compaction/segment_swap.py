"""Puts a compacted segment in the place of the segments that it was made from.

In: a `.cleaned` segment whose files are synced. Out: the log with the new segment in it, and the
old files renamed to `.deleted`.
The steps, with a sync of the directory between them: `.cleaned` becomes `.swap`; the old files
become `.deleted`, the first one first; `.swap` gets its own name. A start after a crash finishes a
swap that has reached `.swap` and removes any other (log/recovery/swap_recovery.py), so readers see
all of the old segments or all of the new one.
The index of aborted transactions comes before these steps, and takes the place of the first old
one: it names all that have a batch in the old segments, so it is good for them and for the new one.
Always: nothing waits here: renames only. The caller of `SegmentSwap.steps` syncs between them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.log.compaction.job import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    CleanedSegment,
    aborted_path,
    bases_path,
    cleaned_paths,
)
from barnabas.log.segments.segment import Segment

if TYPE_CHECKING:
    from barnabas.log.log import Log


class SegmentSwap:
    """One swap. Each step may find that the log has changed since the step before.

    `delete_later` is called with the log and the files that have been renamed to `.deleted`.
    `done`: the log has the new segment. If it is not set at the end, the segments that the new one
    was made from are no longer in the log.
    """

    def __init__(
        self, log: "Log", cleaned: CleanedSegment, delete_later: "Callable[[Log, list[str]], None]"
    ) -> None:
        self._log = log
        self._cleaned = cleaned
        self._delete_later = delete_later
        self.switched = False  # readers get the new segment
        self.done = False

    def steps(self) -> Iterator[str]:
        """Directories: sync each one before the next step."""
        log = self._log
        if log.has_aborted and self._find_old() >= 0:
            self._replace_aborted()
            yield log.path
        if not self._prepare():
            return
        yield log.path
        deleted = self._switch()
        if deleted is None:
            return
        self.switched = True
        self._delete_later(log, deleted)
        yield log.path
        self._settle()
        # Or a crash in the next pass would find this one's segment beside that one's list.
        yield log.path
        self.done = True

    def _replace_aborted(self) -> None:
        log, base = self._log, self._cleaned.bases[0]
        path = aborted_path(log.path, base, "")
        try:
            if self._cleaned.has_aborted:
                log.disk.rename(aborted_path(log.path, base), path)
            else:
                log.disk.remove(path)
        except OSError:  # perhaps a full disk
            self._remove_new(CLEANED_SUFFIX)
            raise
        log.segments[self._find_old()].reload_aborted()

    def _prepare(self) -> bool:
        """The new segment is whole: from here on a crash does not undo the swap.

        False, and the new files are removed, if the old segments are no longer in the log.
        """
        log, base = self._log, self._cleaned.bases[0]
        if self._find_old() < 0:
            self._remove_new(CLEANED_SUFFIX)
            return False
        names = (
            _new_paths(log.path, base, CLEANED_SUFFIX),
            _new_paths(log.path, base, SWAP_SUFFIX),
        )
        try:
            for old, new in zip(*names, strict=True):
                log.disk.rename(old, new)
        except OSError:  # perhaps a full disk
            self._remove_new(CLEANED_SUFFIX)
            self._remove_new(SWAP_SUFFIX)
            raise
        return True

    def _switch(self) -> list[str] | None:
        """Readers get the new segment from here on. The paths of the old files, renamed.

        None, and the new files are removed, if the old segments are no longer in the log.
        """
        log, cleaned = self._log, self._cleaned
        first = self._find_old()
        if first < 0:
            self._remove_new(SWAP_SUFFIX)
            return None
        old = log.segments[first : first + len(cleaned.bases)]
        segment = self._new_segment(old)
        files = [path for each in old for path in each.paths]
        if log.has_aborted:
            files += [each.aborted_path for each in old[1:] if each.has_aborted()]
        files += log.snapshots.paths_of(cleaned.bases[1:])
        for each in old:
            each.close()
        try:
            for path in files:
                with suppress(FileNotFoundError):  # an index may be missing
                    log.disk.rename(path, path + DELETED_SUFFIX)
        except OSError:  # perhaps a full disk: the log stays as it was
            for path in files:
                with suppress(FileNotFoundError):
                    log.disk.rename(path + DELETED_SUFFIX, path)
            self._remove_new(SWAP_SUFFIX)
            raise
        log.snapshots.forget(cleaned.bases[1:])
        log.segments[first : first + len(old)] = [segment]
        log.size += segment.size - sum(each.size for each in old)
        log.reader.forget()
        log.reader.sparse = True
        return [path + DELETED_SUFFIX for path in files]

    def _new_segment(self, old: list[Segment]) -> Segment:
        log, base = self._log, old[0].base_offset
        interval = log.config.index_interval_bytes
        size = self._cleaned.size
        segment = Segment(log.disk, log.path, base, size, log.open_segments, log.findings, interval)
        segment.set_suffix(SWAP_SUFFIX)
        segment.next_offset = old[-1].next_offset
        segment.durable = True
        return segment

    def _settle(self) -> None:
        """The new segment gets its own name, unless it was deleted meanwhile."""
        log, base = self._log, self._cleaned.bases[0]
        segment = log.segments[log.reader.segment_at(base)]
        if segment.suffix == SWAP_SUFFIX and segment.base_offset == base:
            for path in segment.paths:
                with suppress(FileNotFoundError):
                    log.disk.rename(path, path.removesuffix(SWAP_SUFFIX))
            segment.set_suffix("")
        log.disk.remove(bases_path(log.path, base, SWAP_SUFFIX))

    def _find_old(self) -> int:
        """The index of the first old segment; -1 unless all are still there, side by side.

        After a truncation other segments may have their base offsets, with other records in them.
        """
        log, cleaned = self._log, self._cleaned
        if cleaned.cuts != log.cuts:
            return -1
        first = log.reader.segment_at(cleaned.bases[0])
        found = log.segments[first : first + len(cleaned.bases)]
        if [segment.base_offset for segment in found] != cleaned.bases or log.active in found:
            return -1
        return first

    def _remove_new(self, suffix: str) -> None:
        directory, base = self._log.path, self._cleaned.bases[0]
        for path in (*_new_paths(directory, base, suffix), aborted_path(directory, base)):
            self._log.disk.remove(path)


def _new_paths(directory: str, base: int, suffix: str) -> tuple[str, ...]:
    """The log file last: the others are of no use without it."""
    return (bases_path(directory, base, suffix), *cleaned_paths(directory, base, suffix))
