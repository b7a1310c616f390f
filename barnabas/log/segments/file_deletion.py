"""Files that are no longer needed, and when each is deleted (file.delete.delay.ms).

In: files, first under their own names and then renamed to `.deleted`, and a clock. Out: files to
delete now.
Always: a log of the same name that is made later loses no file to an entry of the old one.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.log.compaction.job import DELETED_SUFFIX


class PendingFileDeletion(NamedTuple):
    """A file that is no longer needed, and how long it stays."""

    path: str
    delay_ms: int


class FileDeletions:
    """The pending deletions of one log directory."""

    __slots__ = ("_not_renamed", "_renamed", "_timed")

    def __init__(self) -> None:
        self._not_renamed: list[PendingFileDeletion] = []  # of a checkpoint that failed
        self._renamed: list[PendingFileDeletion] = []  # to `.deleted`, and without a time yet
        self._timed: list[tuple[int, str]] = []  # when each file is deleted

    def take_not_renamed(self) -> list[PendingFileDeletion]:
        taken, self._not_renamed = self._not_renamed, []
        return taken

    def rename_again(self, files: Iterable[PendingFileDeletion]) -> None:
        """The checkpoint that should have renamed them failed."""
        self._not_renamed += files

    def renamed(self, files: Iterable[PendingFileDeletion]) -> None:
        """The files, by their old names, have been renamed to `.deleted`."""
        self._renamed += (
            PendingFileDeletion(path + DELETED_SUFFIX, delay_ms) for path, delay_ms in files
        )

    def add(self, paths: Iterable[str], delay_ms: int) -> None:
        """Files that are called `.deleted` already."""
        self._renamed += (PendingFileDeletion(path, delay_ms) for path in paths)

    def take_due(self, now_ms: int) -> list[str]:
        """The files whose time has come; `now_ms` only goes forward."""
        self._timed += ((now_ms + delay_ms, path) for path, delay_ms in self._renamed)
        self._renamed.clear()
        due = [path for at_ms, path in self._timed if at_ms <= now_ms]
        if due:
            self._timed = [each for each in self._timed if each[0] > now_ms]
        return due

    def all_renamed(self) -> list[str]:
        return [path for _, path in self._timed] + [path for path, _ in self._renamed]

    def forget_directory(self, path: str) -> None:
        """The directory of a log has been renamed: its files go with it."""
        inside = path + "/"
        self._not_renamed = [e for e in self._not_renamed if not e.path.startswith(inside)]
        self._renamed = [each for each in self._renamed if not each.path.startswith(inside)]
        self._timed = [each for each in self._timed if not each[1].startswith(inside)]
