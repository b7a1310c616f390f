"""The disk of a broker in a test: nothing is synced, and it can be full.

A test does not survive a power loss, so it need not pay for syncs.
"""

import errno
import os
from contextlib import suppress
from mmap import mmap
from typing import cast
from weakref import WeakSet, ref

from barnabas.model.ports import Buffer
from barnabas.system.disk import SystemDisk, SystemFile


class _UnsyncedFile(SystemFile):
    __slots__ = ("__weakref__", "disk")
    disk: "FillableDisk"

    def write(self, position: int, data: Buffer) -> None:
        self.disk.check(self.path)
        super().write(position, data)

    def map(self, length: int) -> memoryview:
        view = super().map(length)
        self.disk.maps.append((self.path, ref(view)))
        return view

    def sync(self) -> None:
        """Not in a test."""


class FillableDisk(SystemDisk):
    """`full`: every write fails with ENOSPC."""

    def __init__(self) -> None:
        self.full = False
        self._files: WeakSet[_UnsyncedFile] = WeakSet()
        self.maps: list[tuple[str, ref[memoryview]]] = []  # each holds a descriptor of its own

    def close_all(self, directory: str) -> None:
        """The brokers with files below this directory have ended."""
        for file in list(self._files):
            if file.path.startswith(directory):
                file.close()
        for path, mapped in self.maps:
            view = mapped()
            if view is not None and path.startswith(directory):
                with suppress(ValueError):  # it is closed already
                    memory = cast(mmap, view.obj)
                    view.release()
                    memory.close()
        self.maps = [each for each in self.maps if each[1]() is not None]

    def check(self, path: str) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        if create:
            self.check(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        file = _UnsyncedFile(path, os.open(path, flags, 0o644))
        file.disk = self
        self._files.add(file)
        return file

    def replace_file(self, path: str, data: bytes) -> None:
        self.check(path)
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)

    def sync_directory(self, path: str) -> None:
        """Not in a test."""

    def usage(self, path: str) -> tuple[int, int]:
        total, free = super().usage(path)
        return total, 0 if self.full else free
