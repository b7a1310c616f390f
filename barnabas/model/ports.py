"""The interfaces to the outside: clock, disk, network, as protocols.

Real ones live in `system/`, simulated ones in the tests. Whoever starts a broker
or a client hands them in; nothing below `system/` opens a file, a socket or a clock itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    """Two kinds of time: one that only goes forward, and the one people read."""

    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...


class File(Protocol):
    """An open file. Positions are absolute; there is no cursor to share.

    It closes itself when nobody refers to it any more, so that a reader in the middle
    of a send keeps the file that its owner has dropped.
    """

    def fileno(self) -> int: ...

    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def cached(self, position: int, length: int) -> bool:
        """Could these bytes be read without waiting for the disk? A guess from both ends."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """All of `data`, or an OSError."""
        ...

    def truncate(self, length: int) -> None:
        """Cut to, or grow with zeros to, `length`."""
        ...

    def map(self, length: int) -> memoryview:
        """A shared, writable view of the first `length` bytes; the file is that long or longer."""
        ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute strings."""

    def open(self, path: str, *, create: bool = False) -> File:
        """For reading and writing; FileNotFoundError unless `create`."""
        ...

    def open_files(self) -> int:
        """How many files that `open` returned are not closed yet."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Write a whole small file so that a crash leaves the old or the new one, synced."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written to, by the wall clock of that time."""
        ...

    def set_modified_ms(self, path: str, wall_ms: int) -> None: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; FileNotFoundError if there is none."""
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; no error if it is there."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """A file; no error if it is gone."""
        ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def usage(self, path: str) -> tuple[int, int]:
        """Bytes of the file system that holds `path`: in all, and free for us."""
        ...


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes that stay in their file until the kernel sends them."""

    file: File
    position: int
    length: int


class Stream(Protocol):
    """One accepted or opened connection, never blocking."""

    peer: str

    def receive_into(self, buffer: memoryview) -> int:
        """Bytes received; 0 when the peer has closed; -1 when there is nothing yet.

        A buffer of more than 64 KB is for the rest of one frame, or less: readers may be woken
        when much of it is there, and not before.
        """
        ...

    def send(self, parts: Sequence[Buffer], more: bool = False) -> int:
        """Bytes taken, perhaps fewer than offered, perhaps 0. `more`: others follow at once."""
        ...

    def send_file(self, slice_: FileSlice, more: bool = False) -> int:
        """Bytes taken from the start of the slice, perhaps 0. `more`: others follow at once."""
        ...

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        """Call back whenever bytes wait; None stops."""
        ...

    def watch_writable(self, callback: Callable[[], None] | None) -> None: ...

    def close(self) -> None: ...


class Listening(Protocol):
    """An open listener."""

    host: str
    port: int

    def close(self) -> None: ...


class Network(Protocol):
    """Where connections come from and go to."""

    def listen(self, host: str, port: int, accepted: Callable[[Stream], None]) -> Listening: ...

    async def connect(self, host: str, port: int) -> Stream:
        """An OSError if nobody answers there; whoever waits for less long cancels."""
        ...
