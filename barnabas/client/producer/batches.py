# cython: annotation_typing=False, infer_types=False
"""Batches that are being sent, and the results of their records.

Always: a kept `Delivery` keeps the result of its batch, not its bytes; each waiter of a record is
notified once, and the others are notified even if one raises.
Not here: which record goes into which batch (accumulator.py), when one leaves (outbox.py).

This is plain Python. If a compiler is available, Cython compiles this file with the types in
batches.pxd.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple
from uuid import UUID

from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.record_writer import RecordWriter

COMPILED = not __file__.endswith(".py")

HEADER_ROOM = 61  # in front of the records, for the header of the batch


class RecordMetadata(NamedTuple):
    """Where a record was written. Without acks there is no offset: -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int


Callback = Callable[[RecordMetadata | None, KafkaError | None], None]


class ProducerBatch(RecordWriter):
    """Records of one partition that are being sent, and their result."""

    def __init__(self, queue: "Queue | None", size_max: int, now: int) -> None:
        RecordWriter.__init__(self, HEADER_ROOM, size_max)
        self.queue = queue
        self.created_at = now
        self.attempts = 0
        self.node = -1  # the broker it was last sent to
        self.unsure = False  # may have been written by an attempt that was not answered
        self.sequence = -1
        self.producer_id = -1
        self.epoch = -1
        self.topic_id: UUID = NO_TOPIC_ID  # the topic to which its sequence number belongs
        self.doubted_at = -1  # `Queue.lookups` when its number was first refused as too old
        self.data: bytearray | None = None  # encoded, once it was sent
        self.counted = 0  # bytes of `Accumulator.used`
        self.serial: tuple[int, ...] = ()  # its place among the batches of the partition
        self.parts: list[ProducerBatch] | None = None  # of one that was too large
        self.owner: ProducerBatch | None = None  # of which it is a part
        self.done = False
        self.problem: KafkaError | None = None
        self.failure_round = -1  # of `Accumulator`: in which its failed records count
        self.last_problem: KafkaError | None = None
        self.base_offset = -1
        self.append_time = -1
        self.waiters: list[Any] | None = None
        self.callbacks: list[tuple[Delivery, Callback]] | None = None

    def succeed(self, base_offset: int, append_time: int) -> None:
        self.base_offset = base_offset
        self.append_time = append_time
        self.done = True

    def fail(self, problem: KafkaError, failure_round: int) -> None:
        self.problem = problem
        self.failure_round = failure_round
        self.done = True

    def release(self) -> None:
        """Drop the bytes: a kept delivery must not keep them in memory."""
        self.data = None
        self.buffer = bytearray()

    def announce(self) -> None:
        """Notify the waiters. Separate from the change itself, because they may send more."""
        waiters = self.waiters
        self.waiters = None
        callbacks = self.callbacks
        self.callbacks = None
        interrupted: KeyboardInterrupt | None = None
        if callbacks is not None:
            for delivery, callback in callbacks:
                try:
                    delivery.report(callback)
                except KeyboardInterrupt as why:
                    interrupted = why
                except BaseException:
                    complain(callback)  # the other callbacks are still called
        if waiters is not None:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        if interrupted is not None:
            raise interrupted


class Delivery:
    """The result of one record: await it, or read it once it is `done`."""

    __slots__ = ("_batch", "_index", "_owner", "_reported", "timestamp")

    def __init__(self, owner: Any, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._owner = owner
        self._batch = batch
        self._index = index
        self._reported = False
        self.timestamp = timestamp

    def follow(self, other: "Delivery") -> None:
        """Refer to the same record as another delivery."""
        self._batch = other._batch
        self._index = other._index

    def done(self) -> bool:
        return self._batch.done

    def exception(self) -> KafkaError | None:
        """Why the record was not written; None if it was, or is not done."""
        batch, _ = self._part()
        if batch.problem is not None:
            self._report_failure(batch)
        return batch.problem

    def report(self, callback: Callback) -> None:
        """Pass on the result. A failure counts as reported only if the sender gets it."""
        batch, _ = self._part()
        if batch.problem is None:
            callback(self.metadata(), None)
            return
        if getattr(callback, "reaches_sender", True):
            self._report_failure(batch)
        callback(None, batch.problem)

    def _report_failure(self, batch: ProducerBatch) -> None:
        if not self._reported:
            self._reported = True
            self._owner.failure_reported(batch)

    def metadata(self) -> RecordMetadata:
        """Where the record was written; raises the error if it was not."""
        batch, index = self._part()
        if not batch.done:
            raise InvalidRequest(Code.INVALID_REQUEST, "the record has no answer yet: await it")
        if batch.problem is not None:
            self._report_failure(batch)
            raise fresh(batch.problem)
        queue = batch.queue
        assert queue is not None
        offset = batch.base_offset
        if offset >= 0:
            offset += index
        time = self.timestamp if batch.append_time < 0 else batch.append_time
        return RecordMetadata(queue.topic, queue.partition, offset, time)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The same; a blocking producer waits for it, `timeout` seconds at most."""
        if not self._batch.done:
            self._owner.wait(self, timeout)
        return self.metadata()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while not self._batch.done:
            batch = self._batch
            if batch.waiters is None:
                batch.waiters = []
            waiter = self._owner.new_waiter()
            batch.waiters.append(waiter)
            yield from waiter
        return self.metadata()

    def _part(self) -> tuple[ProducerBatch, int]:
        batch = self._batch
        index = self._index
        while batch.parts is not None:
            for part in batch.parts:
                if index < part.count:
                    batch = part
                    break
                index -= part.count
        return batch, index


class Queue:
    """The batches of one partition."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.waiting: deque[ProducerBatch] = deque()  # the oldest first; `open` is the last
        self.open: ProducerBatch | None = None  # takes more records
        self.flying: list[ProducerBatch] = []  # sent, not answered
        self.serials = 0  # batches so far
        self.leader = -1
        self.sequence = 0  # of the next record that is sent for the first time
        self.acknowledged = 0  # sequence after the last record known to be written
        self.known_to = -1  # the leader that acknowledged the last batch: it knows the producer
        self.producer_id = -1
        self.epoch = -1
        self.topic_id: UUID = NO_TOPIC_ID  # which the sequence numbers are of
        self.lookups = 0  # metadata responses that described the partition
        self.gap = False  # a numbered batch was given up: number the rest again
        self.lost = False  # it may have been written: only another epoch is safe
        self.retry_at = 0
        self.retries = 0  # failures in a row

    def learned(self, topic_id: UUID) -> None:
        """A metadata response says which topic has the name now; some brokers know no ids."""
        self.lookups += 1
        if topic_id in (self.topic_id, NO_TOPIC_ID):
            return
        if self.topic_id != NO_TOPIC_ID:
            # Deleted and created again: no broker knows the producer in this topic.
            self.lost = True
            self.known_to = -1
        self.topic_id = topic_id


def complain(callback: object) -> None:
    import logging  # only when something is wrong

    logging.getLogger("barnabas.client").exception("the callback %r raised", callback)


def fresh(problem: KafkaError) -> KafkaError:
    """A copy of the error: each place that raises it gets its own traceback."""
    again = problem.__class__.__new__(problem.__class__)
    again.args = problem.args
    again.__dict__.update(problem.__dict__)
    return again
