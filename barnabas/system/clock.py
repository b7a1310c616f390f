"""The machine's clocks."""

import time


class SystemClock:
    """Monotonic time for deadlines, wall time for timestamps; never one for the other."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
