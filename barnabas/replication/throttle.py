"""Limits the bytes per second of replicas that catch up, so that others are not disturbed.

In: bytes that were transferred, time. Out: how long to wait.
Always: bytes over the limit delay later transfers; unused quota is saved for one second at most.
"""

NEVER_MS = 1_000  # with a rate of 0: ask again after this time


class Throttle:
    """One direction of one broker: what it sends as a leader, or receives as a follower."""

    __slots__ = ("_left", "_rate", "_then_ms")

    def __init__(self, rate: int, now: int) -> None:
        self._rate = rate  # bytes per second
        self._left = float(rate)
        self._then_ms = now

    def set_rate(self, rate: int, now: int) -> None:
        if rate != self._rate:
            self._refill(now)
            self._rate = rate
            self._left = min(self._left, float(rate))

    def took(self, size: int, now: int) -> None:
        self._refill(now)
        self._left -= size

    def wait_ms(self, now: int) -> int:
        """Until more may be transferred; 0: now."""
        self._refill(now)
        if self._left > 0:
            return 0
        if not self._rate:
            return NEVER_MS
        return 1 + round(-self._left * 1000 / self._rate)

    def _refill(self, now: int) -> None:
        self._left = min(float(self._rate), self._left + self._rate * (now - self._then_ms) / 1000)
        self._then_ms = now
