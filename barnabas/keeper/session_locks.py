"""Tells which sessions in a keeper's file belong to processes that have ended.

A session locks one byte of a file beside the keeper's. The kernel gives the lock back when the
process ends, however it ends, and not while it is stopped.
Always: what cannot be told is not dead.
Why not process ids: docs/adr/0021.
"""

import fcntl
import os
import struct

SUFFIX = "-sessions"

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process
_SET = getattr(fcntl, "F_OFD_SETLK", None)  # of the open file, not of the process
_GET = getattr(fcntl, "F_OFD_GETLK", None)


class SessionLocks:
    """The file, opened when first needed. For one thread at a time."""

    def __init__(self, keeper_file: str) -> None:
        self._path = keeper_file + SUFFIX
        self._descriptor = -1

    def hold(self, session: int) -> bool:
        """For as long as this process lives, or until `close`. False: this system cannot."""
        if _SET is None or _GET is None:
            return False
        try:
            fcntl.fcntl(self._opened(), _SET, _byte(fcntl.F_WRLCK, session))
        except OSError:
            return False
        return True

    def is_free(self, session: int) -> bool:
        """Nobody holds it. Of one's own, always so."""
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
