"""Decides when the handler of a record is called: at most `concurrency` calls at a time, none
before its delay has passed, none for longer than its timeout.

In: records that may run, ends of handlers, time. Out: `Start` and `Cancel`; partitions to process.
Not here: which record is next in its lane (window_partition.py), what follows its call (window.py).
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from barnabas.client.workers.policy import Policy
from barnabas.client.workers.window.effects import Cancel, Effect, Start
from barnabas.client.workers.window.window_partition import (
    RecordState,
    WindowPartition,
    WindowRecord,
)


class HandlerCalls:
    """The calls for the records of all partitions. `running`: handlers that have not ended."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._ready: deque[WindowRecord] = deque()
        self._heap: list[tuple[int, int, WindowRecord | WindowPartition, int]] = []
        self._count = 0
        self.running = 0

    def take(self, entry: WindowRecord, now: int) -> None:
        """A record is the first in its lane."""
        due = entry.trail.not_before
        if due > now:
            # A header with a time in the far future must not delay a record for ever.
            longest = now + int(self._policy.retry.delay[1] * 1_000)
            self.delay(entry, min(due, longest))
        else:
            entry.state = RecordState.READY
            self._ready.append(entry)

    def delay(self, entry: WindowRecord, until: int) -> None:
        entry.state = RecordState.DELAYED
        self._set_timer(until, entry)

    def look_at(self, share: WindowPartition, at: int) -> None:
        """At that time the partition is in `due`."""
        self._set_timer(at, share)

    def start(self, now: int, effects: list[Effect]) -> None:
        """Start as many handlers as are free."""
        ready, policy = self._ready, self._policy
        while ready and self.running < policy.concurrency:
            entry = ready.popleft()
            if entry.state is not RecordState.READY:
                continue
            entry.state = RecordState.RUNNING
            entry.runs += 1
            entry.share.running += 1
            self.running += 1
            effects.append(Start(entry))
            if policy.timeout_ms is not None:
                self._set_timer(now + policy.timeout_ms, entry, entry.runs)

    def ended(self, entry: WindowRecord) -> WindowPartition:
        self.running -= 1
        entry.share.running -= 1
        return entry.share

    def due(self, now: int) -> Iterator[WindowPartition | Cancel]:
        """Partitions that are due, and handlers that timed out."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, timed, run = heappop(heap)
            if isinstance(timed, WindowPartition):
                yield timed
            elif run:
                if timed.state is RecordState.RUNNING and timed.runs == run:
                    yield Cancel(timed)
            elif timed.state is RecordState.DELAYED:
                timed.state = RecordState.READY
                self._ready.append(timed)

    def next_deadline(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def _set_timer(self, at: int, timed: WindowRecord | WindowPartition, run: int = 0) -> None:
        self._count += 1
        heappush(self._heap, (at, self._count, timed, run))
