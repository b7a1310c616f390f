"""Runs several brokers as processes, restarts a broker that dies, and stops them all.

In: how each broker is started, signals, deaths. Out: lines for people, an exit code.
Always: a broker that was ready once is restarted, after a pause that doubles while it keeps dying;
a broker that cannot start the first time stops the whole cluster. Brokers stop one after the other,
so that each hands over what it leads. If this process dies, its brokers find their standard input
closed, and stop.
Not here: what a broker does (broker/main.py).
"""

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from barnabas.cli.brokers.forked import Forked
from barnabas.cli.brokers.ready import FAILED_LINE, READY_LINE, say

PAUSE_S_MIN = 0.1
PAUSE_S_MAX = 10.0
LIVED_S_MIN = 30.0  # then the next death is the first again
STOP_S_MAX = 30.0
ASKED_TWICE_S = 1.0  # an earlier signal is the same request, sent twice, as to a process group
_LINE_LENGTH_MAX = 65_536
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

Start = Callable[[int], Forked]
"""Starts a broker on this port; 0: on its configured port, or any. It has its own session: Ctrl-C
goes to the supervisor, which stops the brokers in order.
"""


class Pauses:
    """How long to wait before a broker is started again."""

    def __init__(self) -> None:
        self._next_s = PAUSE_S_MIN

    def after(self, lived_s: float) -> float:
        if lived_s >= LIVED_S_MIN:
            self._next_s = PAUSE_S_MIN
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, PAUSE_S_MAX)
        return pause_s


@dataclass
class Child:
    """One broker, dead or alive."""

    number: int
    start: Start
    port: int = 0
    address: str = ""
    process: Forked | None = None
    ready: bool = False
    said: bytes = b""
    failure: str = ""
    started_at: float = 0.0
    start_at: float | None = None
    pauses: Pauses = field(default_factory=Pauses)


class Supervisor:
    """Runs the brokers; call `run`."""

    def __init__(self, starts: Iterable[tuple[int, Start]], ready: Callable[[str], None]) -> None:
        """`ready` is called with the addresses of all brokers, once they answer."""
        self._children = [Child(number, start) for number, start in starts]
        self._told_ready = ready
        self._selector = selectors.DefaultSelector()
        self._asked_at = 0.0  # when it was last asked to stop
        self._stopping: list[Child] | None = None
        self._stop_by = 0.0
        self._up = False
        self._code = 0

    def run(self) -> int:
        """Until all brokers have stopped: 0 if they were asked to, and did so cleanly."""
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        woken.setblocking(False)
        before = [signal.signal(number, lambda *_: None) for number in _SIGNALS]
        waker = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ)
        try:
            for child in self._children:
                self._start(child)
            while any(c.process is not None or c.start_at is not None for c in self._children):
                for key, _ in self._selector.select(self._wait_s()):
                    if key.fileobj is woken:
                        self._heard(woken.recv(4096))
                    else:
                        self._read(key.data)
                self._bury()
                self._on_time()
        finally:
            signal.set_wakeup_fd(waker)
            for number, handler in zip(_SIGNALS, before, strict=True):
                signal.signal(number, handler)
            self._let_go()
            self._selector.close()
            wake.close()
            woken.close()
        return self._code

    # Starting

    def _start(self, child: Child) -> None:
        child.ready, child.said, child.failure, child.start_at = False, b"", "", None
        child.started_at = time.monotonic()
        child.process = child.start(child.port)
        assert child.process.stdout is not None
        os.set_blocking(child.process.stdout.fileno(), False)
        self._selector.register(child.process.stdout, selectors.EVENT_READ, child)

    def _read(self, child: Child) -> None:
        if child.process is None or child.process.stdout is None:
            return
        piece = os.read(child.process.stdout.fileno(), _LINE_LENGTH_MAX)
        if not piece:
            self._selector.unregister(child.process.stdout)
            child.process.stdout.close()
            child.process.stdout = None
            return
        *lines, child.said = (child.said + piece).split(b"\n")
        child.said = child.said[-_LINE_LENGTH_MAX:]
        for line in lines:
            self._line_printed(child, line.decode(errors="replace"))

    def _line_printed(self, child: Child, line: str) -> None:
        if line.startswith(FAILED_LINE):
            child.failure = line.removeprefix(FAILED_LINE)
        elif line.startswith(READY_LINE) and not child.ready:
            child.ready = True
            child.address = line.removeprefix(READY_LINE).partition(" ")[0]
            child.port = int(child.address.rpartition(":")[2])
            assert child.process is not None
            what = f"broker {child.number} on {child.address}, process {child.process.pid}"
            if self._up:
                _say(f"{what}, is back")
            else:
                say(what)
            if not self._up and all(each.ready for each in self._children):
                self._up = True
                self._told_ready(",".join(each.address for each in self._children))

    # Deaths

    def _bury(self) -> None:
        for child in self._children:
            if child.process is None or child.process.poll() is None:
                continue
            while child.process.stdout is not None:  # its last output
                with suppress(BlockingIOError):
                    self._read(child)
                    continue
                break
            process, child.process = child.process, None
            if process.stdout is not None:  # a child process still has it open
                self._selector.unregister(process.stdout)
                process.stdout.close()
            process.stdin.close()
            self._died(child, process)

    def _died(self, child: Child, process: Forked) -> None:
        code = process.returncode
        assert code is not None
        how = _how(code, child.failure)
        if self._stopping is not None:
            if code:
                self._code = 1
                _say(f"broker {child.number}, process {process.pid}, did not stop cleanly: {how}")
            self._stop_next()
        elif not self._up and not child.ready:
            _say(f"broker {child.number} cannot start: {how}")
            self._code = 1
            self._stop()
        else:
            pause_s = child.pauses.after(time.monotonic() - child.started_at)
            child.start_at = time.monotonic() + pause_s
            _say(
                f"broker {child.number}, process {process.pid}, {how}; "
                f"starting it again in {pause_s:g} s"
            )

    # Stopping

    def _heard(self, signals: bytes) -> None:
        if all(number == signal.SIGCHLD for number in signals):
            return
        now = time.monotonic()
        if self._stopping is None:
            self._stop()
        elif now >= self._asked_at + ASKED_TWICE_S:
            _say("killing what is left")
            self._kill()
        self._asked_at = now

    def _stop(self) -> None:
        """Stops one broker after the other; the first broker last, as it is most likely the
        controller.
        """
        if self._stopping is None:
            for child in self._children:
                child.start_at = None
            self._stopping = [c for c in self._children if c.process is not None]
            self._stop_next()

    def _stop_next(self) -> None:
        assert self._stopping is not None
        if any(c.process is not None and c not in self._stopping for c in self._children):
            return  # one is stopping
        while self._stopping:
            child = self._stopping.pop()
            if child.process is not None:
                child.process.terminate()
                self._stop_by = time.monotonic() + STOP_S_MAX
                return

    def _kill(self) -> None:
        self._code = 1
        for child in self._children:
            if child.process is not None:
                child.process.kill()

    def _let_go(self) -> None:
        """The supervisor itself failed, for example because the reader of its output is gone."""
        left = [child.process for child in self._children if child.process is not None]
        for process in left:
            process.stdin.close()
        for process in left:
            try:
                process.wait(STOP_S_MAX)
            except TimeoutError:
                process.kill()
                process.wait()

    # Time

    def _wait_s(self) -> float | None:
        times = [child.start_at for child in self._children if child.start_at is not None]
        if self._stopping is not None:
            times.append(self._stop_by)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _on_time(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.start_at is not None and now >= child.start_at:
                self._start(child)
        if self._stopping is not None and now >= self._stop_by:
            for child in self._children:
                if child.process is not None and child not in self._stopping:
                    _say(f"broker {child.number} does not stop: killing it")
                    child.process.kill()
            self._stop_by = now + STOP_S_MAX


def _how(code: int, failure: str) -> str:
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was killed by {name}"
    return f"ended with {code}{failure and f': {failure}'}"


def _say(line: str) -> None:
    say(f"barnabas: {line}", err=True)
