"""A broker as a process of its own, forked from one that has imported all that a broker needs.

In: what it is to run. Out: a process, with pipes to its standard input and from its output.
Always: it has no file of its parent's but standard error, a session of its own, the signals as a
new process has them; it ends without tidying up what is its parent's.
Why not a new interpreter: docs/adr/0028.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import FileIO
from typing import NoReturn

STDIN, STDOUT = 0, 1  # also where the parent has none
_LOOK_S = 0.01
_OWN_FILES = 3


class Forked:
    """As `subprocess.Popen`, as far as a supervisor needs it. For a process without threads."""

    def __init__(self, name: str, run: Callable[[], int]) -> None:
        """`run` gives the exit code; `name` is what `ps -o comm` and `top` show."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what is left in it would be said twice
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if not self.pid:
                _be(name, run, theirs_in, theirs_out, held)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin = FileIO(ours_in, "wb")
        self.stdout: FileIO | None = FileIO(ours_out, "rb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, the negative of the signal that ended it, or None while it lives."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        deadline = None if seconds is None else time.monotonic() + seconds
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} is still there after {seconds} s")
            time.sleep(_LOOK_S)
        return code

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _be(
    name: str, run: Callable[[], int], stdin: int, stdout: int, signals: Iterable[int]
) -> NoReturn:
    """The child. The frames of the parent are below: nothing they hold is ever let go of."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        os.dup2(stdin, STDIN)
        os.dup2(stdout, STDOUT)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor >= _OWN_FILES:
                with suppress(OSError):  # the one that lists them
                    os.close(descriptor)
        with suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as comm:
            comm.write(name)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        code = run()
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
