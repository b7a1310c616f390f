"""Remembers that a sync of a log has begun and has not succeeded, also after a kill.

In: the directory of a log. Out: a file in it; its byte is `1` from before a sync until it succeeds.
Always: a log that is opened with the mark is written again from its recovery point on, before its
next sync (recovery/log_recovery.py).
Why: after a failed sync, Linux considers the data written, and every later sync succeeds without
it. The next process would read the records from memory, sync them and report them as durable. Only
the sync that failed returns the error, and its process may have been killed while it waited.
The mark is not synced itself: a power loss takes the data that was only in memory, so that recovery
sees what the disk has.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.model.ports import Disk

FILE_NAME = "unconfirmed-sync"
_SET, _CLEAR = b"1", b"0"


class SyncMark:
    """Of one log. `directory` follows the log when it is renamed."""

    __slots__ = ("_disk", "directory")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory

    @property
    def path(self) -> str:
        return f"{self.directory}/{FILE_NAME}"

    @contextmanager
    def during_sync(self, *, confirms: bool = True) -> Iterator[None]:
        """`confirms`: after a success, nothing is left that an earlier sync failed to write."""
        file = self._disk.open(self.path, create=True)
        try:
            file.write(0, _SET)
            yield
            if confirms:
                file.write(0, _CLEAR)
        finally:
            file.close()

    def is_set(self) -> bool:
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return False
        try:
            return file.read(0, 1) != _CLEAR
        finally:
            file.close()

    def remove(self) -> None:
        """Everything is synced, or has been written again."""
        self._disk.remove(self.path)
