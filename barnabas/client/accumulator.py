"""Collects records into batches, a queue of them per partition.

In: records with their partitions. Out: batches to send, each with its first sequence number.
Always: the records of a partition leave in the order they came; a batch that was taken keeps
its bytes and its sequence number however often it is sent; one batch per partition at a time.
Not here: sending (producer.py), choosing a partition (partitioner.py).
"""

from collections import deque
from typing import NamedTuple

from barnabas.model.ids import NO_PRODUCER_ID, TopicPartition
from barnabas.wire.compression import Codec
from barnabas.wire.records import BatchBuilder, Headers

_SEQUENCE_COUNT = 2**31


class Identity(NamedTuple):
    """Who produces, for the broker to see duplicates; the default is nobody."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1


NOBODY = Identity()


class Batch(NamedTuple):
    """One batch on its way. `handles` are the caller's, one per record."""

    at: TopicPartition
    data: bytearray
    handles: list[object]


class _Open:
    __slots__ = ("builder", "handles")

    def __init__(self, size_max: int) -> None:
        self.builder = BatchBuilder(size_max)
        self.handles: list[object] = []


class Accumulator:
    """`add` records, `take` batches."""

    def __init__(self, *, codec: Codec, batch_size_max: int, identity: Identity = NOBODY) -> None:
        self._codec = codec
        self._batch_size_max = batch_size_max
        self._identity = identity
        self._queues: dict[TopicPartition, deque[_Open]] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self.size = 0

    def identify(self, identity: Identity) -> None:
        """Go on as another producer; sequence numbers start again."""
        self._identity = identity
        self._sequences.clear()

    def add(
        self,
        at: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        handle: object = None,
    ) -> None:
        queue = self._queues.get(at)
        opened = queue[-1] if queue else None
        before = opened.builder.size if opened else 0
        if opened is None or not opened.builder.append(key, value, headers, timestamp):
            before = 0
            opened = _Open(self._batch_size_max)
            opened.builder.append(key, value, headers, timestamp)
            # Only now, so that a record that cannot be encoded leaves no empty batch behind.
            self._queues.setdefault(at, deque()).append(opened)
        opened.handles.append(handle)
        self.size += opened.builder.size - before

    def waiting(self) -> list[TopicPartition]:
        """Partitions that have a batch to take."""
        return [at for at, queue in self._queues.items() if queue]

    def take(self, at: TopicPartition) -> Batch:
        """The oldest batch of a partition."""
        taken = self._queues[at].popleft()
        if not self._queues[at]:
            del self._queues[at]
        self.size -= taken.builder.size
        count = taken.builder.count
        sequence = -1
        if self._identity is not NOBODY:
            sequence = self._sequences.get(at, 0)
            self._sequences[at] = (sequence + count) % _SEQUENCE_COUNT
        data = taken.builder.build(
            codec=self._codec,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=sequence,
        )
        return Batch(at, data, taken.handles)
