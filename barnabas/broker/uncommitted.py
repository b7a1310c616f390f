"""Batches that are in a log and not committed yet, and the requests that wait for each.

In: batches as they are appended, the high watermark. Out: completed requests.
Always: oldest first; each waiting request is completed once, with success or with the reason why
the record will not be committed here.
"""

from collections import deque
from collections.abc import Callable

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.model.errors import KafkaError

Outcome = KafkaError | None
"""None: the record is committed. Otherwise why it is not, or why the outcome is unknown here."""


class UncommittedBatch:
    """One uncommitted batch; `end` is the offset after it."""

    __slots__ = ("end", "size", "waiting")

    def __init__(self, end: int, size: int) -> None:
        self.end = end
        self.size = size
        self.waiting: list[Callable[[Outcome], None]] = []


class UncommittedBatches:
    """The uncommitted batches of one partition."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: deque[UncommittedBatch] = deque()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, end: int, size: int) -> None:
        self._batches.append(UncommittedBatch(end, size))

    def wait(self, offset: int) -> DeferredReply[Outcome] | None:
        """Wait for the batch with `offset`; None if there is none. Usually it is the last batch."""
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

    def take_up_to(self, offset: int) -> tuple[int, list[Callable[[Outcome], None]]]:
        """Remove batches that end at or below `offset`: their bytes, and the requests that
        waited."""
        batches = self._batches
        size = 0
        waiting: list[Callable[[Outcome], None]] = []
        while batches and batches[0].end <= offset:
            batch = batches.popleft()
            size += batch.size
            waiting += batch.waiting
        return size, waiting

    def fail(self, error: KafkaError) -> None:
        """Drop all batches and fail the requests that wait for them: the outcome is unknown
        here."""
        batches, self._batches = self._batches, deque()
        for batch in batches:
            for complete in batch.waiting:
                complete(error)

    def fail_waiting(self, error: KafkaError) -> None:
        """Fail the requests that wait now; the batches stay and may still be committed."""
        for batch in self._batches:
            waiting, batch.waiting = batch.waiting, []
            for complete in waiting:
                complete(error)
