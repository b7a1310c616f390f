"""The ends of batches: written, given up, or split. Their waiters are notified.

In: batches that left their queue. Out: results of their records; bytes of `buffer.memory` that are
free again.
Always: each batch ends exactly once; a batch that was split ends when all its parts have ended;
no waiter is notified before `announce`, because a callback may send.
Not here: deciding which of them it is (outbox.py).
"""

from collections import deque

from barnabas.client.producer import sequences
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.batches import ProducerBatch, Queue
from barnabas.client.producer.sealing import halves
from barnabas.model.errors import KafkaError


class BatchResults:
    """Of one producer."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._finished: deque[ProducerBatch] = deque()

    def written(self, batch: ProducerBatch, base_offset: int, append_time: int) -> None:
        """-1: the broker did not send it, or no longer knows it."""
        queue = queue_of(batch)
        queue.retries = 0
        sequences.acknowledged(queue, batch)
        batch.succeed(base_offset, append_time)
        self._finish(batch)

    def give_up(self, batch: ProducerBatch, why: KafkaError) -> None:
        queue = queue_of(batch)
        if batch.sequence >= 0:
            # Sent several times: a former leader may have answered that the batch is missing.
            if batch.unsure or batch.attempts > 1:
                queue.lost = True
            else:
                queue.gap = True
        self._accumulator.fail(batch, why, batch.count)
        self._finish(batch)

    def split(self, batch: ProducerBatch) -> None:
        """Two batches of half its records each, in its place."""
        queue = queue_of(batch)
        parts = halves(batch)
        self._accumulator.used += sum(part.counted for part in parts) - batch.counted
        batch.parts = parts
        batch.release()
        for part in parts:
            sequences.requeue(queue, part)
        self._accumulator.active[queue] = None

    def drop(self, problem: KafkaError) -> None:
        """Give up all that waits."""
        for topic in list(self._accumulator.unknown):
            self._accumulator.topic_failed(topic, problem)
        for queue in self._accumulator.queues():
            batches = list(queue.waiting)
            queue.waiting.clear()
            queue.open = None
            for batch in batches:
                if not batch.done:
                    self.give_up(batch, problem)
        self._accumulator.active.clear()
        self.announce()

    def abandon(self, problem: KafkaError) -> None:
        """Give up all that waits or is under way: the producer ends."""
        for queue in self._accumulator.queues():
            queue.waiting.extendleft(reversed(queue.flying))
            queue.flying.clear()
        self.drop(problem)

    def announce(self) -> None:
        """Notify the waiters, after every change is made: they may send more."""
        while self._finished:
            self._accumulator.announce(self._finished.popleft())

    def _finish(self, batch: ProducerBatch) -> None:
        self._accumulator.used -= batch.counted
        batch.release()
        whole = batch
        while whole.owner is not None:
            whole = whole.owner
            assert whole.parts is not None
            if not all(part.done for part in whole.parts):
                return
            whole.done = True
        self._finished.append(whole)


def queue_of(batch: ProducerBatch) -> Queue:
    queue = batch.queue
    assert queue is not None
    return queue
