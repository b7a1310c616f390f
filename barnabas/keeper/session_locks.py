"""Finds out which sessions in a keeper's file belong to processes that have ended.

A session locks one byte of a file beside the keeper's. The kernel releases the lock when the
process ends, for any reason, and not while it is stopped.
Always: if it is unknown whether a process has ended, its session is considered alive.
Why not process ids: docs/adr/0021.
"""

import fcntl
import os
import struct

SUFFIX = "-sessions"

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process
_SET = getattr(fcntl, "F_OFD_SETLK", None)  # per open file, not per process
_GET = getattr(fcntl, "F_OFD_GETLK", None)


class SessionLocks:
    """The file, opened on first use. For one thread at a time."""

    def __init__(self, keeper_file: str) -> None:
        self._path = keeper_file + SUFFIX
        self._descriptor = -1

    def hold(self, session: int) -> bool:
        """Until this process ends, or until `close`. False: this system cannot lock."""
        if _SET is None or _GET is None:
            return False
        try:
            fcntl.fcntl(self._opened(), _SET, _byte(fcntl.F_WRLCK, session))
        except OSError:
            return False
        return True

    def is_free(self, session: int) -> bool:
        """No process holds it. Always True for this object's own locks."""
        if _GET is None:
            return False
        try:
            found = fcntl.fcntl(self._opened(), _GET, _byte(fcntl.F_WRLCK, session))
        except OSError:
            return False
        return bool(_FLOCK.unpack(found)[0] == fcntl.F_UNLCK)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> int:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._descriptor


def _byte(kind: int, session: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, session, 1, 0)
