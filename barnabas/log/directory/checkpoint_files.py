"""The checkpoint files of a log directory, as they were last read or written.

In: the contents that the files should have. Out: those that have changed, as work for any thread.
Always: after a write that failed, all of its files are written again.
Not here: what the files say (directory.py), their format (checkpoints.py).
"""

from contextlib import suppress

from barnabas.log.compaction.job import DELETED_SUFFIX
from barnabas.log.directory.checkpoints import CorruptCheckpoint, decode_offsets
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments.deletion import SegmentDeletion
from barnabas.log.segments.file_deletion import PendingFileDeletion
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk


class CheckpointWork:
    """The checkpoint files as they should be now; `run` may go in any thread.

    It also renames the files below the start of a log to `.deleted`, once that start is on disk.
    """

    __slots__ = ("_disk", "_path", "deletions", "files", "files_to_delete")

    def __init__(
        self,
        disk: Disk,
        path: str,
        files: dict[str, bytes],
        files_to_delete: list[PendingFileDeletion],
        deletions: list[SegmentDeletion],
    ) -> None:
        self._disk = disk
        self._path = path
        self.files = files
        self.files_to_delete = files_to_delete
        self.deletions = deletions

    def run(self) -> None:
        """All of it, or an OSError: then `LogDirectory.not_written` has it made again."""
        for name, data in self.files.items():
            self._disk.replace_file(f"{self._path}/{name}", data)
        for path, _ in self.files_to_delete:
            with suppress(FileNotFoundError):  # an earlier run has renamed it
                self._disk.rename(path, path + DELETED_SUFFIX)


class CheckpointFiles:
    """The files by name, with the contents that they are known to have."""

    __slots__ = ("_contents", "_disk", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._contents: dict[str, bytes] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._contents

    def read_offsets(
        self, name: str, names: list[str], findings: list[RecoveryFinding]
    ) -> dict[TopicPartition, int]:
        """Nothing if the file is missing or damaged. `names`: all files of the directory."""
        if name not in names:
            return {}
        path = f"{self._path}/{name}"
        data = self._disk.read_file(path)
        try:
            offsets = decode_offsets(data)
        except CorruptCheckpoint as error:
            findings.append(RecoveryFinding(path, str(error), "ignored"))
            return {}
        self._contents[name] = data
        return offsets

    def write(self, name: str, data: bytes) -> None:
        """Now, and synced."""
        self._contents.pop(name, None)
        self._disk.replace_file(f"{self._path}/{name}", data)
        self._contents[name] = data

    def take_changed(self, contents: dict[str, bytes]) -> dict[str, bytes]:
        """The files to write; if that fails, call `not_written`."""
        changed = {
            name: data for name, data in contents.items() if self._contents.get(name) != data
        }
        self._contents.update(changed)
        return changed

    def not_written(self, files: dict[str, bytes]) -> None:
        for name in files:
            self._contents.pop(name, None)
