"""A broker process whose disks fail on demand: `python -m tests.sick_broker up ...`.

A file named BROKEN in a log directory makes every write and sync below that directory fail with
EIO; a file named SLOW makes every sync below it wait until the file is gone, or for SLOW_S.
"""

import errno
import os
import sys
import time

from barnabas.broker import main
from barnabas.model.ports import Buffer
from barnabas.system.disk import SystemDisk, SystemFile

BROKEN = "broken"
SLOW = "slow"
SLOW_S = 120.0


def ail(path: str, *, sync: bool = False) -> None:
    directory = os.path.dirname(os.path.dirname(path))  # of a file in a partition's directory
    for place in (directory, os.path.dirname(path)):
        if sync and os.path.exists(os.path.join(place, SLOW)):
            until = time.monotonic() + SLOW_S
            while time.monotonic() < until and os.path.exists(os.path.join(place, SLOW)):
                time.sleep(0.01)
        if os.path.exists(os.path.join(place, BROKEN)):
            raise OSError(errno.EIO, "the disk is broken", path)


class SickFile(SystemFile):
    __slots__ = ()

    def write(self, position: int, data: Buffer) -> None:
        ail(self.path)
        super().write(position, data)

    def sync(self) -> None:
        ail(self.path, sync=True)
        super().sync()


class SickDisk(SystemDisk):
    def open(self, path: str, *, create: bool = False) -> SystemFile:
        if create:
            ail(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SickFile(path, os.open(path, flags, 0o644))

    def replace_file(self, path: str, data: bytes) -> None:
        ail(path, sync=True)
        super().replace_file(path, data)

    def sync_directory(self, path: str) -> None:
        ail(f"{path}/.", sync=True)
        super().sync_directory(path)


if __name__ == "__main__":
    from barnabas.cli.app import run

    vars(main)["SystemDisk"] = SickDisk
    sys.exit(run(sys.argv[1:]))
