"""The syncs that make a log durable up to an offset, as work for another thread.

In: what must be synced (files, epochs, directory entries). Out: nothing, or OSError.
Always: after a failed sync the kernel may have dropped the data, and a second sync would succeed
without it. So after a sync that found no room, everything that is not durable is read back, checked
and written again before it is synced (`rewrite`). After any other error this process syncs no more;
the next one writes everything again that is not durable (sync_mark.py).
Always: `run` does not touch the state of the log; `Log.flushed` takes the result.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.log.config import INT64_MAX
from barnabas.log.segments.scan import checked_batches
from barnabas.log.segments.segment import Segment
from barnabas.log.sync_mark import SyncMark
from barnabas.model.ports import Disk, File

REWRITE_BYTES = 1 << 20  # at a time


class Flush:
    """Run it anywhere, once; then hand it to `Log.flushed`."""

    __slots__ = (
        "_directories",
        "_disk",
        "_epochs_file",
        "_files",
        "_mark",
        "_paths",
        "active_base",
        "confirms",
        "cuts",
        "directory_version",
        "end_offset",
        "epochs_version",
        "recovery_limit",
        "rewrite",
        "sealed",
        "snapshots",
    )

    def __init__(self, disk: Disk, mark: SyncMark, end_offset: int, active_base: int) -> None:
        self._disk = disk
        self._mark = mark
        self._files: list[tuple[File, int, int]] = []  # and the bytes that may not be durable
        self._paths: list[str] = []
        self._directories: list[str] = []
        self._epochs_file: tuple[str, bytes] | None = None
        self.end_offset = end_offset
        self.active_base = active_base  # from here on, only the log file is synced
        self.rewrite = False
        self.confirms = True  # afterwards nothing is left that an earlier sync failed to write
        self.cuts = 0  # truncations that the log had seen when this was taken
        # The first roll whose snapshot is not written; the recovery point stays below it.
        self.recovery_limit = INT64_MAX
        self.sealed: list[Segment] = []
        self.snapshots: list[int] = []
        self.epochs_version = -1
        self.directory_version = -1

    def add_segment(self, segment: Segment, *, sealed: bool, durable_bytes: int = 0) -> None:
        """The active segment's indexes need no sync: recovery rebuilds them."""
        self._files.append((segment.file(), durable_bytes, segment.size))
        if sealed:
            self._paths += (
                segment.offset_index.path,
                segment.time_index.path,
                segment.aborted_path,
            )
            self.sealed.append(segment)

    def add_file(self, path: str) -> None:
        self._paths.append(path)

    def add_epochs(self, path: str, data: bytes, version: int) -> None:
        self._epochs_file = (path, data)
        self.epochs_version = version

    def add_directory(self, path: str) -> None:
        self._directories.append(path)

    def run(self) -> None:
        with self._mark.during_sync(confirms=self.confirms):
            self._sync()

    def write_again(self) -> None:
        """Without a sync. For a log that was just opened: its batches have been checked."""
        for file, start, end in self._files:
            _rewrite(file, start, end)
        for path in self._paths:
            with _opened(self._disk, path) as opened:
                if opened is not None:
                    _rewrite(opened, 0, opened.size())

    def _sync(self) -> None:
        for file, start, end in self._files:
            if self.rewrite:
                _rewrite_batches(file, start, end)
            file.sync()
        for path in self._paths:
            with _opened(self._disk, path) as opened:
                if opened is None:
                    continue
                if self.rewrite:
                    _rewrite(opened, 0, opened.size())
                opened.sync()
        if self._epochs_file is not None:
            self._disk.replace_file(*self._epochs_file)
        for directory in self._directories:
            self._disk.sync_directory(directory)


@contextmanager
def _opened(disk: Disk, path: str) -> Iterator[File | None]:
    """None if it was deleted since: nothing is left to make durable."""
    try:
        opened = disk.open(path)
    except FileNotFoundError:
        yield None
        return
    try:
        yield opened
    finally:
        opened.close()


def _rewrite_batches(file: File, start: int, end: int) -> None:
    """EIO if a batch is missing: then only recovery can find out what is left."""
    for checked in checked_batches(file, end, start):
        if checked.header is None:
            raise OSError(
                errno.EIO,
                "records were lost because the disk was full during a sync, at position "
                f"{checked.position}: {checked.problem}",
            )
    _rewrite(file, start, end)


def _rewrite(file: File, start: int, end: int) -> None:
    for position in range(start, end, REWRITE_BYTES):
        file.write(position, file.read(position, min(REWRITE_BYTES, end - position)))
