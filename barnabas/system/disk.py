"""The machine's file system behind the Disk port.

Always: a write is complete or raises an OSError; after a crash, `replace_file` left the old or the
new contents.
"""

import errno
import fcntl
import mmap
import os
import shutil

from barnabas.model.errors import Code, Failed
from barnabas.model.ports import Buffer

LOCK_FILE = ".lock"
_ONE_BYTE = bytearray(1)  # read into, never used
_OPEN: set[int] = set()  # descriptors of SystemFiles; a set, as several threads open and close


class SystemFile:
    """One open file descriptor, positional reads and writes only."""

    __slots__ = ("_fd", "_reports_cached", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        _OPEN.add(fd)
        # Whether the disk can report that a read would wait; a memory disk cannot.
        self._reports_cached = True

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # a short read: the end of the file, or a signal
        got = len(data)
        while got < length and (data := os.pread(self._fd, length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def cached(self, position: int, length: int) -> bool:
        if not self._reports_cached:
            return True
        try:
            for at in (position, position + length - 1):
                os.preadv(self._fd, (_ONE_BYTE,), at, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            self._reports_cached = error.errno != errno.EOPNOTSUPP
        return True

    def write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, position)
        length = len(data)
        while written < length:
            written += os.pwrite(self._fd, memoryview(data)[written:], position + written)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    def map(self, length: int) -> memoryview:
        return memoryview(mmap.mmap(self._fd, length, mmap.MAP_SHARED))

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            _OPEN.discard(self._fd)  # first: another thread may get the same number
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        # A segment closes its file by dropping it; a reply that still sends from it keeps it open.
        self.close()


class SystemDisk:
    """Opens files by path."""

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, 0o644))

    def open_files(self) -> int:
        return len(_OPEN)

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            self.remove(temporary)
            raise OSError(error.errno, error.strerror, path) from None
        self.sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        os.utime(path, ns=(wall_ms * 1_000_000, wall_ms * 1_000_000))

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def usage(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class DirectoryLock:
    """Held by the one process that may use a data directory; the kernel releases it at exit.

    The file contains the owner's process id, for people; only the lock itself decides.
    """

    def __init__(self, directory: str) -> None:
        """Raises Failed at once if another process holds it."""
        path = os.path.join(directory, LOCK_FILE)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            self.release()
            raise Failed(
                Code.KAFKA_STORAGE_ERROR,
                f"data directory {directory} is in use by another broker"
                f"{owner and f' (process {owner})'}: stop that broker, or use another directory",
            ) from None
        except OSError:
            self.release()
            raise
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
        except OSError:
            return  # a full disk: the lock works without the process id

    def release(self) -> None:
        os.close(self._fd)
