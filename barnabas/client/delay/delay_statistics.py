"""What became of the records of one holding partition, and how late they were.

In: transactions that were committed. Out: counts, buckets and percentiles of the lateness.
Lateness counts from the time in the header, or from the record's own timestamp if it was sent after
that time: a sender that is late does not make the delayer late.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

LATENESS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 300_000)  # upper bounds
RECENT_MAX = 1_000


class DelayStatistics:
    """Since the program has started; it survives that the partition is taken over again."""

    def __init__(self) -> None:
        self.delivered = 0
        self.cancelled = 0
        self.dead_letters = 0
        self.lateness_ms_sum = 0
        self._buckets = [0] * (len(LATENESS_MS) + 1)
        self._recent: deque[int] = deque(maxlen=RECENT_MAX)

    def delivered_late(self, lateness_ms: Iterable[int]) -> None:
        """One committed transaction: how late each of its delivered records is."""
        for late in lateness_ms:
            self.delivered += 1
            self.lateness_ms_sum += late
            self._buckets[bisect_left(LATENESS_MS, late)] += 1
            self._recent.append(late)

    def buckets(self) -> list[tuple[str, int]]:
        """Upper bounds in seconds, and how many records are not later than that."""
        found, total = [], 0
        for bound, number in zip(LATENESS_MS, self._buckets, strict=False):
            total += number
            found.append((str(bound / 1000), total))
        return [*found, ("+Inf", total + self._buckets[-1])]

    def recent(self) -> list[int]:
        """The lateness of the last deliveries."""
        return list(self._recent)


def percentile_ms(values: Sequence[int], part: float) -> int | None:
    """The smallest value that at least this part of the values does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, ceil(part * len(values)) - 1)]


class DelayView(NamedTuple):
    """One holding partition that this program has."""

    topic: str
    partition: int
    statistics: DelayStatistics
    waiting: int = 0
    held: int = 0  # of them, due records whose topic cannot be written at the moment
    next_due_ms: int | None = None
