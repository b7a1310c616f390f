"""Puts a compacted segment in the place of those that it was made from.

In: a `.cleaned` segment whose files are synced. Out: the log with the new segment in it, and the
old files under their last name.
The steps, with a sync of the directory between them: `.cleaned` becomes `.swap`; the old files
become `.deleted`, the first one first; `.swap` gets its own name. A start after a crash finishes
what has come as far as `.swap` (swaps.py) and removes what has not, so readers see all of the old
or all of the new.
Always: nothing waits here: renames only. Whoever carries the steps out (Swap) syncs between them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.log.cutting import Cutting
from barnabas.log.jobs import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    Cleaned,
    bases_path,
    cleaned_paths,
)
from barnabas.log.segment import Segment

if TYPE_CHECKING:
    from barnabas.log.log import Log


class Swap:
    """One swap, carried out by whoever goes through its steps.

    `doom` is told of files that have their last name. `done`: the log has the new segment; else
    the segments that it was made from are not there any more.
    """

    def __init__(
        self, log: "Log", cleaned: Cleaned, doom: "Callable[[Log, list[str]], None]"
    ) -> None:
        self._log = log
        self._cleaned = cleaned
        self._doom = doom
        self.switched = False  # readers get the new segment
        self.done = False

    def steps(self) -> Iterator[str]:
        """Directories: each must be synced before it goes on."""
        log, cleaned = self._log, self._cleaned
        if not log.prepare_swap(cleaned):
            return
        yield log.path
        doomed = log.switch(cleaned)
        if doomed is None:
            return
        self.switched = True
        self._doom(log, doomed)
        yield log.path
        log.settle_swap(cleaned)
        # Or a crash in the next pass would find this one's segment beside that one's list.
        yield log.path
        self.done = True


class Swapping(Cutting):
    """The steps of one swap, each of which may find that the log has changed meanwhile."""

    def prepare_swap(self, cleaned: Cleaned) -> bool:
        """The new segment is whole: from here on a crash does not undo it.

        False, and its files are gone, if the old segments are not in the log any more.
        """
        base = cleaned.bases[0]
        if self._place(cleaned) < 0:
            self._remove_new(base, CLEANED_SUFFIX)
            return False
        names = (
            _new_paths(self.path, base, CLEANED_SUFFIX),
            _new_paths(self.path, base, SWAP_SUFFIX),
        )
        try:
            for old, new in zip(*names, strict=True):
                self._disk.rename(old, new)
        except OSError:  # perhaps a full disk
            self._remove_new(base, CLEANED_SUFFIX)
            self._remove_new(base, SWAP_SUFFIX)
            raise
        return True

    def _remove_new(self, base: int, suffix: str) -> None:
        for path in _new_paths(self.path, base, suffix):
            self._disk.remove(path)

    def switch(self, cleaned: Cleaned) -> list[str] | None:
        """Readers get the new segment from here on. The paths of the old files, renamed.

        None if the old segments have gone meanwhile; so has the new one then.
        """
        place = self._place(cleaned)
        if place < 0:
            self._remove_new(cleaned.bases[0], SWAP_SUFFIX)
            return None
        old = self.segments[place : place + len(cleaned.bases)]
        segment = Segment(
            self._disk,
            self.path,
            old[0].base_offset,
            cleaned.size,
            self._warm,
            self.findings,
            self.config.index_interval_bytes,
        )
        segment.set_suffix(SWAP_SUFFIX)
        segment.next_offset = old[-1].next_offset
        segment.durable = True
        doomed = [path for each in old for path in each.paths]
        doomed += self._snapshots.paths_of(cleaned.bases[1:])
        for each in old:
            each.close()
        try:
            for path in doomed:
                with suppress(FileNotFoundError):  # an index may be missing
                    self._disk.rename(path, path + DELETED_SUFFIX)
        except OSError:  # perhaps a full disk: the log stays as it was
            for path in doomed:
                with suppress(FileNotFoundError):
                    self._disk.rename(path + DELETED_SUFFIX, path)
            self._remove_new(cleaned.bases[0], SWAP_SUFFIX)
            raise
        self._snapshots.forget(cleaned.bases[1:])
        self.segments[place : place + len(old)] = [segment]
        self.size += segment.size - sum(each.size for each in old)
        self._reader.forget()
        self._reader.sparse = True
        return [path + DELETED_SUFFIX for path in doomed]

    def settle_swap(self, cleaned: Cleaned) -> None:
        """The new segment gets its own name, unless it has gone already."""
        place = self._reader.segment_at(cleaned.bases[0])
        segment = self.segments[place]
        if segment.suffix == SWAP_SUFFIX and segment.base_offset == cleaned.bases[0]:
            for path in segment.paths:
                with suppress(FileNotFoundError):
                    self._disk.rename(path, path.removesuffix(SWAP_SUFFIX))
            segment.set_suffix("")
        self._disk.remove(bases_path(self.path, cleaned.bases[0], SWAP_SUFFIX))

    def _place(self, cleaned: Cleaned) -> int:
        """Where the old segments are, if they are all still there and nothing else is between.

        After a truncation others may have their base offsets, with other records in them.
        """
        if cleaned.cuts != self.cuts:
            return -1
        place = self._reader.segment_at(cleaned.bases[0])
        found = self.segments[place : place + len(cleaned.bases)]
        if [segment.base_offset for segment in found] != cleaned.bases or self._active in found:
            return -1
        return place


def _new_paths(directory: str, base: int, suffix: str) -> tuple[str, ...]:
    """The log file last: it is what counts."""
    return (bases_path(directory, base, suffix), *cleaned_paths(directory, base, suffix))
