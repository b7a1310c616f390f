"""The memory disk of the benchmarks: /dev/shm with large pages, where we may have it.

A file system on disk keeps what is written in pages as large as the writes. /dev/shm hands out
4 KB at a time unless it was mounted otherwise, which is half of what a broker does that writes
there: the kernel would be measured, not the brokers (docs/adr/0035).
"""

import ctypes
import os
from pathlib import Path

PLACE = "/dev/shm"
LARGE_PAGES = "huge=within_size"

_NEW_MOUNTS = 0x0002_0000  # CLONE_NEWNS
_PRIVATE = 0x4_4000  # MS_REC | MS_PRIVATE

_libc = ctypes.CDLL(None, use_errno=True)


def have_large_pages() -> None:
    """In the eyes of this process and its children alone; nothing changes for others.

    OSError where the system does not allow it: it takes root.
    """
    _call("unshare", _NEW_MOUNTS)
    _call("mount", None, b"/", None, _PRIVATE, None)
    _call("mount", b"tmpfs", PLACE.encode(), b"tmpfs", 0, f"{LARGE_PAGES},size=90%".encode())


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def kind() -> str:
    """What it is, as the kernel has it mounted."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    options = [fields[3] for fields in mounts if fields[1] == PLACE]
    if not options:
        return "none"
    large = [one for one in options[-1].split(",") if one.startswith("huge=")]
    return f"{PLACE}, {large[0] if large else 'pages of 4 KB'}"
