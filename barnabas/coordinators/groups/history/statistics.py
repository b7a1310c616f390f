"""Counts the rebalances of all groups of a broker, and bounds the memory of their histories.

In: every entry when it is finished. Out: numbers for the metrics, entries to log.
Always: all histories together use no more than `bytes_max`; the oldest entries of any group are
dropped first.
Not here: the histories themselves (rebalance_history.py).
"""

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from barnabas.coordinators.groups.history.rebalance_history import (
    CauseKind,
    RebalanceCause,
    RebalanceEntry,
    RebalanceHistory,
    assignment_bytes,
)

BYTES_MAX = 16 << 20
ENTRY_BYTES = 600
CAUSE_BYTES = 300
UNLOGGED_MAX = 1_000
SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class FinishedRebalance(NamedTuple):
    """A rebalance that is over, to be logged."""

    group: str
    entry: RebalanceEntry


class Durations:
    """A histogram of durations with the buckets of SECONDS, as Prometheus counts."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum_s = 0.0

    def add(self, ms: int) -> None:
        self.counts[bisect_left(SECONDS, ms / 1_000)] += 1
        self.sum_s += ms / 1_000


class RebalanceStatistics:
    """One for all groups of a broker."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes = 0
        self.rebalances = dict.fromkeys(CauseKind, 0)  # by first cause
        self.overtaken = 0  # rebalances that another one replaced before they had an assignment
        self.join = Durations()
        self.sync = Durations()
        self.unlogged: deque[FinishedRebalance] = deque(maxlen=UNLOGGED_MAX)
        self._bytes_max = bytes_max
        self._entries: deque[tuple[RebalanceHistory, RebalanceEntry, int]] = deque()

    def finished(self, history: RebalanceHistory, entry: RebalanceEntry) -> None:
        if entry.causes:
            self.rebalances[entry.causes[0].kind] += 1
        if entry.sync_ms >= 0:
            self.join.add(entry.join_ms)
            self.sync.add(entry.sync_ms)
        else:
            self.overtaken += 1
        self.unlogged.append(FinishedRebalance(history.group, entry))
        size = ENTRY_BYTES + assignment_bytes(entry.after or {}) + sum(map(_size, entry.causes))
        self._entries.append((history, entry, size))
        self.bytes += size
        while self.bytes > self._bytes_max:
            oldest, dropped, size = self._entries.popleft()
            oldest.drop(dropped)
            self.bytes -= size

    def take(self) -> list[FinishedRebalance]:
        """The rebalances that were not logged yet."""
        unlogged = list(self.unlogged)
        self.unlogged.clear()
        return unlogged


def _size(cause: RebalanceCause) -> int:
    """About the memory of one cause; names may be long."""
    texts = (cause.member, cause.client, cause.reason, *cause.topics_added, *cause.topics_dropped)
    return CAUSE_BYTES + sum(map(len, texts))
