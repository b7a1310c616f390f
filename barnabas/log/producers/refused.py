"""Which batches of idempotent producers must come again before later ones are appended.

In: batches that were refused with an error after which the producer retries; batches that arrive,
and what the log knows of their producers.
Out: whether a batch must wait for a refused one before it.
Always: at most PRODUCERS_MAX producers, each for at most AGE_MS_MAX.

A producer has several requests in flight. If the first is refused because too few replicas are in
sync, or because this broker does not lead yet, and the situation changes before the second arrives,
the second would get OUT_OF_ORDER_SEQUENCE_NUMBER, or even be appended if the producer is new here.
librdkafka then starts a new epoch and sends all of them again, also those that were written
(its issue 4953): records would be there twice.

A refused batch may come by another way: a follower refuses several batches, the leader appends
the first of them, and the follower has that one when it leads. The others must still come.
"""

from typing import NamedTuple

from barnabas.log.producers.state import (
    NO_SEQUENCE,
    SEQUENCE_MASK,
    ProducerState,
    ProducerStates,
)

PRODUCERS_MAX = 1_000
AGE_MS_MAX = 60_000


class _Refused(NamedTuple):
    epoch: int
    first: int  # base sequences
    last: int
    wall_ms: int  # of the first refusal


class RefusedBatches:
    """Of one partition; empty as soon as every producer has sent its refused batches again."""

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refused] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def add(self, producer_id: int, epoch: int, sequence: int, wall_ms: int) -> None:
        first = last = sequence
        known = self._current(producer_id, wall_ms)
        if known is not None and known.epoch == epoch:
            wall_ms = known.wall_ms
            first = known.first if _is_after(sequence, known.first) else sequence
            last = known.last if _is_after(known.last, sequence) else sequence
        self._by_producer[producer_id] = _Refused(epoch, first, last, wall_ms)
        if len(self._by_producer) > PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]

    def arrived(
        self, producers: ProducerStates, producer_id: int, epoch: int, sequence: int, wall_ms: int
    ) -> bool:
        """False: this batch is too early."""
        known = self._current(producer_id, wall_ms)
        if known is None:
            return True
        due = _due(known, producers.entries.get(producer_id))
        if epoch == known.epoch and due is not None:
            if _is_after(sequence, due):
                return False
            if _is_after(known.last, sequence):
                return True  # others that were refused must follow
        del self._by_producer[producer_id]
        return True

    def _current(self, producer_id: int, wall_ms: int) -> _Refused | None:
        known = self._by_producer.get(producer_id)
        if known is not None and not 0 <= wall_ms - known.wall_ms <= AGE_MS_MAX:
            del self._by_producer[producer_id]
            return None
        return known


def _due(refused: _Refused, producer: ProducerState | None) -> int | None:
    """The sequence that must come next. None: the producer is fenced; the append says so."""
    if producer is None or producer.epoch < refused.epoch:
        return refused.first
    if producer.epoch > refused.epoch:
        return None
    if producer.last_sequence == NO_SEQUENCE:  # the epoch is known from a marker
        return refused.first
    return (producer.last_sequence + 1) & SEQUENCE_MASK


def _is_after(sequence: int, other: int) -> bool:
    """Sequence numbers wrap."""
    return 0 < ((sequence - other) & SEQUENCE_MASK) <= SEQUENCE_MASK // 2
