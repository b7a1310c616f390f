"""How long the event loop stood still, and how long events waited for it."""

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker.loop_heartbeat import BEAT_MS, BLOCKED_MS, WINDOW_MS, LoopHeartbeat
from barnabas.system.logs import Logger


class Turning:
    """A clock and a loop that the test turns."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.said = io.StringIO()
        self._beat: Callable[[], None] | None = None
        clock = SimpleNamespace(monotonic_ms=lambda: self.now_ms)
        loop = SimpleNamespace(call_later=self._call_later)
        self.heartbeat = LoopHeartbeat(cast(Any, clock), cast(Any, loop), Logger(self.said))
        self.heartbeat.start()

    def _call_later(self, wait_s: float, beat: Callable[[], None]) -> None:
        assert wait_s == BEAT_MS / 1000
        self._beat = beat

    def turn(self, late_ms: int = 0, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += BEAT_MS + late_ms
            assert self._beat is not None
            self._beat()


def test_a_loop_that_does_not_turn_is_idle_for_as_long() -> None:
    turning = Turning()
    turning.turn()
    assert turning.heartbeat.idle_ms() == 0
    turning.now_ms += 5_000
    assert turning.heartbeat.idle_ms() == 5_000
    turning.turn()
    assert turning.heartbeat.idle_ms() == 0


def test_the_delay_is_what_99_of_100_turns_of_the_last_minute_waited() -> None:
    turning = Turning()
    assert turning.heartbeat.delay_ms_p99() == 0
    turning.turn(late_ms=2, times=594)
    turning.turn(late_ms=50, times=6)
    assert turning.heartbeat.delay_ms_p99() == 50
    turning.turn(late_ms=2)
    turning.turn(late_ms=1, times=WINDOW_MS // BEAT_MS)
    assert turning.heartbeat.delay_ms_p99() == 1


def test_a_loop_that_stood_still_delayed_every_event_of_that_time_and_says_so() -> None:
    turning = Turning()
    turning.turn(times=WINDOW_MS // BEAT_MS)
    turning.turn(late_ms=2 * BLOCKED_MS)
    assert turning.heartbeat.delay_ms_p99() > BLOCKED_MS
    said = json.loads(turning.said.getvalue())
    assert (said["event"], said["ms"]) == ("event loop was blocked", 2 * BLOCKED_MS)


def test_a_pause_of_hours_takes_no_memory() -> None:
    turning = Turning()
    turning.turn(late_ms=3_600_000)
    assert turning.heartbeat.delay_ms_p99() >= 3_600_000 - WINDOW_MS
