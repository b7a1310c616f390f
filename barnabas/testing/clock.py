"""Time that a test can advance: session timeouts, retention and retries pass in milliseconds.

A running clock follows the machine's clock and jumps ahead when it is told to. A manual clock
stands still until it is told to advance.
Always: all brokers of a test share one clock; their event loops run on it too.
"""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

MANUAL, RUNNING = "manual", "running"


class TestClock:
    """The Clock port of the brokers of one test. `advance(hours=25)`."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(self, kind: str = RUNNING) -> None:
        if kind not in (MANUAL, RUNNING):
            raise ValueError(f"clock={kind!r}: it is {RUNNING!r} or {MANUAL!r}")
        self.manual = kind == MANUAL
        self._ahead_ns = 0
        self._monotonic_ns = time.monotonic_ns()
        self._wall_ns = time.time_ns()
        self._lock = threading.Lock()
        # Makes a jump while no event loop runs, and lets deadlines pass before requests go on.
        self.at_rest: Callable[[Callable[[], None]], None] = lambda jump: jump()

    def _now_ns(self) -> int:
        now = self._monotonic_ns if self.manual else time.monotonic_ns()
        return now + self._ahead_ns

    def seconds(self) -> float:
        """Of the event loops."""
        return self._now_ns() / 1e9

    def monotonic_ms(self) -> int:
        return self._now_ns() // 1_000_000

    def wall_ms(self) -> int:
        return (self._wall_ns + self._now_ns() - self._monotonic_ns) // 1_000_000

    def advance(
        self,
        seconds: float = 0,
        *,
        milliseconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Every deadline of the brokers within this time has passed when this returns.

        What follows from a deadline may take a moment more, as files that are deleted: wait for
        it with `wait_until`.
        """
        step = timedelta(
            seconds=seconds, milliseconds=milliseconds, minutes=minutes, hours=hours, days=days
        )
        if step < timedelta(0):
            raise ValueError("time does not go back")

        def jump() -> None:
            self._ahead_ns += int(step.total_seconds() * 1e9)

        with self._lock:
            self.at_rest(jump)
