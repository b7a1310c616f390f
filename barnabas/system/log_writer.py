"""Writes log lines to a descriptor from a thread of its own, so that no caller waits for a reader.

In: lines, from any thread. Out: the same lines, in order; for dropped lines, one line with their
count as soon as the descriptor accepts lines again.
Always: `write` never waits for the descriptor; the queue has at most LINES_MAX lines and
BYTES_MAX bytes; a line is one system call, so brokers that share a pipe do not mix
their lines.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable

LINES_MAX = 1_000
BYTES_MAX = 1 << 20
CLOSE_S_MAX = 1.0
_POLL_MS = 1_000


class LogWriter:
    """The thread starts with the first line."""

    def __init__(self, descriptor: int, dropped_line: Callable[[int], str]) -> None:
        """`dropped_line` builds the line about dropped lines from their count."""
        self.dropped = 0  # since the start
        self._descriptor = descriptor
        self._say_dropped = dropped_line
        # With the number of dropped lines that each reports.
        self._lines: deque[tuple[bytes, int]] = deque()
        self._bytes = 0  # of the queued lines, and of the one that is being written
        self._unreported = 0  # dropped lines that no line has reported yet
        self._report_now = False  # as soon as the queue is empty; else before the next line
        self._closing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace")
        with self._changed:
            full = len(self._lines) >= LINES_MAX or self._bytes + len(data) > BYTES_MAX
            if full or self._closing or not self._started():
                self.dropped += 1
                self._unreported += 1
                self._report_now = True
                return
            if self._unreported:  # between the lines before them and the lines after them
                self._append_report()
            self._append(data, 0)
            self._changed.notify()

    def close(self, wait_s: float = CLOSE_S_MAX) -> None:
        """Lines that the descriptor does not accept within this time are lost."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(wait_s)

    # With the lock held

    def _started(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the process cannot start another thread now
                return False
            self._thread = thread
        return True

    def _append_report(self) -> None:
        count, self._unreported, self._report_now = self._unreported, 0, False
        self._append(self._say_dropped(count).encode(), count)

    def _append(self, data: bytes, reports: int) -> None:
        self._lines.append((data, reports))
        self._bytes += len(data)

    # The thread

    def _run(self) -> None:
        while (line := self._next()) is not None:
            data, reports = line
            written = self._write(data)
            with self._changed:
                self._bytes -= len(data)
                if not written:
                    self.dropped += not reports
                    self._unreported += reports or 1

    def _next(self) -> tuple[bytes, int] | None:
        with self._changed:
            while not self._lines:
                if self._report_now:
                    self._append_report()
                elif self._closing:
                    return None
                else:
                    self._changed.wait()
            return self._lines.popleft()

    def _write(self, data: bytes) -> bool:
        """Whether all of it could be written."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # another process made the descriptor non-blocking
                self._wait_until_writable()
            except OSError:  # no room, no reader, or closed
                return False
        return True

    def _wait_until_writable(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll(_POLL_MS)
