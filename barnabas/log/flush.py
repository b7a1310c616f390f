"""The syncs that make a log durable up to an offset, as work for another thread.

In: what a log wants synced (files, epochs, directory entries). Out: nothing, or OSError;
a sync that failed is never tried again (the kernel may have dropped the data).
Always: `run` touches nothing of the log's own state; `Log.flushed` takes the result in.
"""

from barnabas.log.segment import Segment
from barnabas.model.ports import Disk, File


class Flush:
    """Run it anywhere, once; then hand it to `Log.flushed`."""

    __slots__ = (
        "_directories",
        "_disk",
        "_epochs_file",
        "_files",
        "_paths",
        "active_base",
        "cuts",
        "directory_version",
        "end_offset",
        "epochs_version",
        "sealed",
        "snapshots",
    )

    def __init__(self, disk: Disk, end_offset: int, active_base: int) -> None:
        self._disk = disk
        self._files: list[File] = []
        self._paths: list[str] = []
        self._directories: list[str] = []
        self._epochs_file: tuple[str, bytes] | None = None
        self.end_offset = end_offset
        self.active_base = active_base  # from here on, only the log file is synced
        self.cuts = 0  # truncations that the log had seen when this was taken
        self.sealed: list[Segment] = []
        self.snapshots: list[int] = []
        self.epochs_version = -1
        self.directory_version = -1

    def add_segment(self, segment: Segment, *, sealed: bool) -> None:
        """The active segment's indexes need no sync: recovery rebuilds them."""
        self._files.append(segment.file())
        if sealed:
            self._paths += (segment.offset_index.path, segment.time_index.path)
            self.sealed.append(segment)

    def add_file(self, path: str) -> None:
        self._paths.append(path)

    def add_epochs(self, path: str, data: bytes, version: int) -> None:
        self._epochs_file = (path, data)
        self.epochs_version = version

    def add_directory(self, path: str) -> None:
        self._directories.append(path)

    def run(self) -> None:
        for file in self._files:
            file.sync()
        for path in self._paths:
            try:
                opened = self._disk.open(path)
            except FileNotFoundError:
                continue  # deleted since: nothing left to make durable
            try:
                opened.sync()
            finally:
                opened.close()
        if self._epochs_file is not None:
            self._disk.replace_file(*self._epochs_file)
        for directory in self._directories:
            self._disk.sync_directory(directory)
