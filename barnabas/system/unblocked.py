"""Writes a short line to standard output or standard error without waiting for its reader.

For a process that cannot have a second thread; a broker's log has one (log_writer.py).
Always: the descriptor stays blocking for all other processes that share it.
"""

import os
import select
import socket
import stat


def write_now(descriptor: int, data: bytes) -> bool:
    """False: the line was dropped, because a write would have waited, or because of an error."""
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISSOCK(mode):
            with socket.socket(fileno=os.dup(descriptor)) as own:
                return own.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(data)
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            return _write_reopened(descriptor, data)
        # A second open of a regular file would have its own position.
        return os.write(descriptor, data) == len(data)
    except OSError:
        return False


def _write_reopened(descriptor: int, data: bytes) -> bool:
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        own = os.open(f"/proc/self/fd/{descriptor}", flags)
    except PermissionError:  # the terminal of another user
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return bool(poll.poll(0)) and os.write(descriptor, data) == len(data)
    try:
        return os.write(own, data) == len(data)
    finally:
        os.close(own)
