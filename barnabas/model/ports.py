"""The interfaces to the outside: clock, disk, network, as protocols.

The real ones are in `system/`, simulated ones in the tests. The program that starts a broker or a
client passes them in; nothing below `system/` opens a file or a socket or reads a clock itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    """Two kinds of time: monotonic time, and wall-clock time."""

    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...


class File(Protocol):
    """An open file. Positions are absolute; there is no cursor to share.

    It closes when the last reference is dropped, so a reader in the middle of a send keeps a file
    that its owner has dropped.
    """

    def fileno(self) -> int: ...

    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def cached(self, position: int, length: int) -> bool:
        """Whether these bytes can probably be read without waiting for the disk; a guess from the
        first and last page.
        """
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Writes all of `data`, or raises OSError."""
        ...

    def truncate(self, length: int) -> None:
        """Truncate to `length`, or extend to it with zeros."""
        ...

    def map(self, length: int) -> memoryview:
        """A shared, writable view of the first `length` bytes; the file is that long or longer."""
        ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute strings."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError if there is no file and `create` is
        False.
        """
        ...

    def open_files(self) -> int:
        """How many files that `open` returned are not closed yet."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Replace a small file and sync it; after a crash the old or the new content is there."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in wall-clock time."""
        ...

    def set_modified_ms(self, path: str, wall_ms: int) -> None: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; FileNotFoundError if there is none."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory with its parents; no error if it exists."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""
        ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def usage(self, path: str) -> tuple[int, int]:
        """Bytes of the file system of `path`: total, and available to us."""
        ...


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes that stay in their file until the kernel sends them."""

    file: File
    position: int
    length: int


class Stream(Protocol):
    """One accepted or opened connection, never blocking.

    `failure`: the error that ended receiving; empty after an orderly close.
    """

    peer: str
    failure: str

    def receive_into(self, buffer: memoryview) -> int:
        """Bytes received; 0 at the end of the connection; -1 when there is nothing yet.

        A buffer of more than 64 KB is for the rest of one frame: the reader may be woken only when
        much of it has arrived.
        """
        ...

    def send(self, parts: Sequence[Buffer], more: bool = False) -> int:
        """Send; returns the bytes taken, perhaps fewer than offered, perhaps 0. `more`: more bytes
        follow at once.
        """
        ...

    def send_file(self, slice_: FileSlice, more: bool = False) -> int:
        """Send from the start of the slice; returns the bytes taken, perhaps 0. `more`: more bytes
        follow at once.
        """
        ...

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        """Call back whenever bytes can be read; None stops the calls."""
        ...

    def watch_writable(self, callback: Callable[[], None] | None) -> None: ...

    def close(self) -> None: ...


class Listening(Protocol):
    """An open listener."""

    host: str
    port: int

    def pause(self) -> None:
        """Accept nothing until `resume`: new connections wait, or are refused by the system."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class Network(Protocol):
    """Opens listeners and connections."""

    def listen(
        self, host: str, port: int, accepted: Callable[[Stream], None], near: bool = True
    ) -> Listening:
        """`near`: brokers of this machine and user may also come by a cheaper way, which has
        neither encryption nor a login.
        """
        ...

    async def connect(self, host: str, port: int, near: bool = True) -> Stream:
        """Connect; OSError if the address does not answer. A caller with a shorter
        timeout cancels. `near`: the cheaper way may be used, if there is one.
        """
        ...
