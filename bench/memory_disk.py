"""The RAM-backed directory of the benchmarks: /dev/shm with large pages, if the system allows it.

A file system on disk stores data in pages as large as the writes. By default /dev/shm allocates 4
KB at a time, which is half of a broker's work
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
    """Mounts it for this process and its children only; other processes see no change.

    OSError if the system does not allow it: it requires root.
    """
    _call("unshare", _NEW_MOUNTS)
    _call("mount", None, b"/", None, _PRIVATE, None)
    _call("mount", b"tmpfs", PLACE.encode(), b"tmpfs", 0, f"{LARGE_PAGES},size=90%".encode())


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def kind() -> str:
    """The kind of the mount, as the kernel reports it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    options = [fields[3] for fields in mounts if fields[1] == PLACE]
    if not options:
        return "none"
    large = [one for one in options[-1].split(",") if one.startswith("huge=")]
    return f"{PLACE}, {large[0] if large else 'pages of 4 KB'}"
