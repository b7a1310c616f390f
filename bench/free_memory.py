"""Writes to free memory before a workload needs it, so that the machine really has it.

A virtual machine may give free memory back to its host some seconds after it was freed. The first
write to such memory costs ten times as much CPU time, in the broker that stores records or in the
client that receives them (docs/adr/0037).
"""

import contextlib
import mmap
import os
import subprocess
import sys

# More than a workload needs: the host continues to take memory back.
_MOST_MB = 3_000
_MB = 1 << 20


def touch() -> None:
    """In a process of its own: a driver that has just been busy is scheduled otherwise than one
    that was waiting, and for a while its round trips take twice as long."""
    subprocess.run([sys.executable, __file__], check=True)


def _write_and_free() -> None:
    free_mb = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MB
    size = min(_MOST_MB, free_mb // 2)
    with mmap.mmap(-1, size * _MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)  # what the host takes are large pages
        for start in range(0, size * _MB, _MB):
            memory[start : start + _MB] = bytes(_MB)


if __name__ == "__main__":
    _write_and_free()
