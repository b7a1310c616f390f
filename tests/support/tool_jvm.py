"""One JVM for Kafka's tools: each would take a second to start a JVM of its own.

In: a main class, arguments, standard input. Out: exit code, standard output and standard error.
Not here: tools that a test kills, stops or talks to while they run (`Java.command`).
"""

import atexit
import struct
import subprocess
from collections.abc import Callable, Sequence
from threading import Lock, Timer
from typing import IO

from tests.support.cache import Missing

_LENGTH = struct.Struct(">i")


class ToolJvm:
    """Runs `tests/support/java/Tools.java`; one tool at a time."""

    def __init__(self, command: Callable[[], Sequence[str]]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = Lock()

    def run(
        self, main: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str] | None:
        """None if another thread's tool runs here: it may wait for what this one does. None also
        where `Tools.java` cannot be compiled."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            return self._run(main, arguments, stdin, timeout_s)
        except Missing:
            return None
        finally:
            self._busy.release()

    def _run(
        self, main: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        parts = [part.encode() for part in (main, stdin, *arguments)]
        timer = Timer(timeout_s, process.kill)
        timer.start()
        try:
            framed = b"".join(_LENGTH.pack(len(part)) + part for part in parts)
            process.stdin.write(_LENGTH.pack(len(parts)) + framed)
            process.stdin.flush()
            (code,) = _LENGTH.unpack(_read(process.stdout, _LENGTH.size))
            out, err = (_read_part(process.stdout) for _ in range(2))
        except (EOFError, BrokenPipeError):
            self.stop()
            if timer.finished.is_set():
                raise subprocess.TimeoutExpired([main, *arguments], timeout_s) from None
            raise RuntimeError(f"the JVM of Kafka's tools ended while it ran {main}") from None
        finally:
            timer.cancel()
        return subprocess.CompletedProcess([main, *arguments], code, out, err)

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            list(self._command()), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        atexit.register(self.stop)
        return self._process

    def stop(self) -> None:
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _read(stream: IO[bytes], size: int) -> bytes:
    read = stream.read(size)
    if len(read) < size:
        raise EOFError
    return read


def _read_part(stream: IO[bytes]) -> str:
    return _read(stream, _LENGTH.unpack(_read(stream, _LENGTH.size))[0]).decode()
