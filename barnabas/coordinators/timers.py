"""Many deadlines that move often: moving one costs no more than an assignment.

In: timers set, moved and stopped. Out: those that are due, and the next deadline.
Always: a timer fires once per setting, never before its time. The next deadline may be
earlier than any timer that is set (one was moved later since); it is never later.
"""

from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")


class Timer(Generic[K]):
    """One deadline that can be moved; `key` says what it is for."""

    __slots__ = ("at", "key", "queued_at")

    def __init__(self, key: K) -> None:
        self.key = key
        self.at: int | None = None
        self.queued_at: int | None = None  # of its earliest entry in the heap

    def stop(self) -> None:
        self.at = None


class Timers(Generic[K]):
    """A heap whose entries may be stale: they are put right when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer[K]]] = []
        self._count = 0

    def __len__(self) -> int:
        """Entries in the heap, stale ones too."""
        return len(self._heap)

    def set(self, timer: Timer[K], at: int) -> None:
        timer.at = at
        if timer.queued_at is None or at < timer.queued_at:
            self._queue(timer, at)

    def next_deadline(self) -> int | None:
        heap = self._heap
        while heap:
            at, _, timer = heap[0]
            if timer.queued_at == at and timer.at is not None:
                return at
            heappop(heap)
            if timer.queued_at == at:
                timer.queued_at = None
        return None

    def pop_due(self, now_ms: int) -> Timer[K] | None:
        """One timer that is due, stopped; None when there is none."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            at, _, timer = heappop(heap)
            if timer.queued_at != at:
                continue  # it was moved to an earlier entry, which has come up before
            timer.queued_at = None
            if timer.at is None:
                continue
            if timer.at <= now_ms:
                timer.at = None
                return timer
            self._queue(timer, timer.at)
        return None

    def _queue(self, timer: Timer[K], at: int) -> None:
        timer.queued_at = at
        self._count += 1
        heappush(self._heap, (at, self._count, timer))
