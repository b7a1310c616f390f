"""Shows whether the event loop is running: for the keeper's session, and for people.

In: iterations of the loop. Out: the time since the last one, from any thread; delays.
Always: only the loop itself writes, so that a loop that hangs in a call cannot look alive.
Not here: what a session does about a loop that hangs (keeper/).
"""

import asyncio
from collections import deque

from barnabas.model.ports import Clock
from barnabas.system.logs import Logger

BEAT_MS = 100
WINDOW_MS = 60_000
BLOCKED_MS = 1_000  # longer delays are logged


class LoopHeartbeat:
    """Starts with the listener, stops last."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop, log: Logger) -> None:
        self._clock = clock
        self._loop = loop
        self._log = log
        self._beat_ms = self._clock.monotonic_ms()
        self._delays_ms: deque[int] = deque(maxlen=WINDOW_MS // BEAT_MS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._beat_ms = self._clock.monotonic_ms()
        self._timer = self._loop.call_later(BEAT_MS / 1000, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def idle_ms(self) -> int:
        """Milliseconds since the last iteration of the loop. From any thread."""
        return self._clock.monotonic_ms() - self._beat_ms

    def delay_ms_p99(self) -> int:
        """The delay that 99 of 100 events of the last minute did not exceed."""
        delays = sorted(self._delays_ms)
        return delays[len(delays) * 99 // 100] if delays else 0

    def _beat(self) -> None:
        now_ms = self._clock.monotonic_ms()
        delay_ms = max(0, now_ms - self._beat_ms - BEAT_MS)
        self._beat_ms = now_ms
        self._delays_ms.append(delay_ms)
        # Events that arrived while the loop hung waited too, each for the rest of that time.
        for waited_ms in range(delay_ms - BEAT_MS, max(0, delay_ms - WINDOW_MS), -BEAT_MS):
            self._delays_ms.append(waited_ms)
        if delay_ms >= BLOCKED_MS:
            self._log.warning("event loop was blocked", ms=delay_ms)
        self._timer = self._loop.call_later(BEAT_MS / 1000, self._beat)
