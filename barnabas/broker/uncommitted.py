"""Batches that are in a log and do not count yet, and who waits for each.

In: batches as they are appended, the offset below which records count. Out: answers.
Always: oldest first; everybody who waits is told once, of success or of why it never comes.
"""

from collections import deque
from collections.abc import Callable

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.model.errors import KafkaError

Outcome = KafkaError | None
"""None: the record counts. Else why it does not, or why nobody will find out here."""


class UncommittedBatch:
    """One that waits; `end` is the offset behind it."""

    __slots__ = ("end", "size", "waiting")

    def __init__(self, end: int, size: int) -> None:
        self.end = end
        self.size = size
        self.waiting: list[Callable[[Outcome], None]] = []


class UncommittedBatches:
    """Of one partition."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: deque[UncommittedBatch] = deque()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, end: int, size: int) -> None:
        self._batches.append(UncommittedBatch(end, size))

    def wait(self, offset: int) -> DeferredReply[Outcome] | None:
        """For the batch that holds `offset`; None if there is none. Mostly it is the last."""
        found: UncommittedBatch | None = None
        for batch in reversed(self._batches):
            if batch.end <= offset:
                break
            found = batch
        if found is None:
            return None
        answer: DeferredReply[Outcome] = DeferredReply()
        found.waiting.append(answer.set)
        return answer

    def upto(self, offset: int) -> tuple[int, list[Callable[[Outcome], None]]]:
        """Those that end at or below `offset` go: their bytes, and who waited."""
        batches = self._batches
        size = 0
        waiting: list[Callable[[Outcome], None]] = []
        while batches and batches[0].end <= offset:
            batch = batches.popleft()
            size += batch.size
            waiting += batch.waiting
        return size, waiting

    def fail(self, why: KafkaError) -> None:
        """Nobody here will know."""
        batches, self._batches = self._batches, deque()
        for batch in batches:
            for tell in batch.waiting:
                tell(why)

    def disappoint(self, why: KafkaError) -> None:
        """Who waits now is told; the batches stay, and may count one day."""
        for batch in self._batches:
            waiting, batch.waiting = batch.waiting, []
            for tell in waiting:
                tell(why)
