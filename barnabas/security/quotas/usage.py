"""What a client has used: a rate over the last windows, or a bucket of tokens.

In: amounts, the limit, `now_ms`. Out: for how many milliseconds the client must wait.
Always: the same numbers as Kafka's Rate and TokenBucket; the memory of one is bounded by the number
of windows.
"""

from math import floor
from typing import NamedTuple


class QuotaWindows(NamedTuple):
    """`quota.window.num` windows of `quota.window.size.seconds`."""

    number: int
    window_ms: int

    @property
    def seconds(self) -> float:
        return self.number * self.window_ms / 1000


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class UsageRate:
    """Amounts per second over the last windows.

    A sample has the amounts of one window. One more sample than windows is kept: the oldest one
    may have begun before the time that is looked at.
    """

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """A negative amount takes back what was recorded but not used."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._windows.window_ms:
            sample = self._advance(now_ms)
        sample.value += amount
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows.number + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _look(self, now_ms: int) -> tuple[float, int]:
        """The total, and the time that it is divided by.

        Samples with nothing within the windows are forgotten; one that overlaps their beginning
        stays. The time is at least all windows but one, so that a client that has just begun is
        not taken for a fast one.
        """
        number, window_ms = self._windows
        age_ms = number * window_ms
        total, oldest_ms = 0.0, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= age_ms:
                sample.reset(now_ms)
            else:
                total += sample.value
                oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = number - 1 - elapsed_ms // window_ms
        if missing > 0:
            elapsed_ms += missing * window_ms
        return total, max(elapsed_ms, 1)

    def total(self, now_ms: int) -> float:
        return self._look(now_ms)[0]

    def elapsed_ms(self, now_ms: int) -> int:
        return self._look(now_ms)[1]

    def per_second(self, now_ms: int) -> float:
        total, elapsed_ms = self._look(now_ms)
        return total * 1000 / elapsed_ms

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """Until the rate is back at the limit, if nothing more is recorded; 0: it is not above."""
        total, elapsed_ms = self._look(now_ms)
        rate = total * 1000 / elapsed_ms
        if rate <= limit:
            return 0
        return _rounded((rate - limit) / limit * elapsed_ms)


class UsageBucket:
    """Tokens that are added steadily, and saved for as long as all windows together. A request may
    take more than there are; the next one waits until none are owed."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # full, whatever the limit is
        self._updated_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        most = limit * self._windows.seconds
        if self._tokens is None:
            self._tokens = most
        else:
            added = limit * (now_ms - self._updated_ms) / 1000
            self._tokens = min(most, self._tokens + added)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, amount: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - amount

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """Until no tokens are owed; 0: none are."""
        tokens = self.tokens(limit, now_ms)
        return 0 if tokens >= 0 else _rounded(-tokens / limit * 1000)


def _rounded(number: float) -> int:
    """As Java rounds."""
    return floor(number + 0.5)
