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

The refused batch may come by another way: a follower refuses a batch, the leader appends it, and
the follower has it when it leads.
"""

from typing import NamedTuple

from barnabas.log.producers.state import (
    NO_SEQUENCE,
    SEQUENCE_MASK,
    ProducerState,
    ProducerStates,
)

PRODUCERS_MAX = 100
AGE_MS_MAX = 60_000


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    wall_ms: int


class RefusedBatches:
    """Of one partition; empty as soon as every producer has sent its refused batch again."""

    def __init__(self) -> None:
        self._lowest: dict[int, _Refused] = {}

    def __len__(self) -> int:
        return len(self._lowest)

    def add(self, producer_id: int, epoch: int, sequence: int, wall_ms: int) -> None:
        """The first of several is the one that must come again first."""
        known = self._current(producer_id, wall_ms)
        if known is not None and known.epoch == epoch and _is_after(sequence, known.sequence):
            return
        self._lowest[producer_id] = _Refused(epoch, sequence, wall_ms)
        if len(self._lowest) > PRODUCERS_MAX:
            del self._lowest[next(iter(self._lowest))]

    def arrived(
        self, producers: ProducerStates, producer_id: int, epoch: int, sequence: int, wall_ms: int
    ) -> bool:
        """False: this batch is too early. Otherwise the refused one need not be waited for."""
        known = self._current(producer_id, wall_ms)
        if known is None:
            return True
        is_later = epoch == known.epoch and _is_after(sequence, known.sequence)
        if is_later and not _is_written(known, producers.entries.get(producer_id)):
            return False
        del self._lowest[producer_id]
        return True

    def _current(self, producer_id: int, wall_ms: int) -> _Refused | None:
        known = self._lowest.get(producer_id)
        if known is not None and not 0 <= wall_ms - known.wall_ms <= AGE_MS_MAX:
            del self._lowest[producer_id]
            return None
        return known


def _is_written(refused: _Refused, producer: ProducerState | None) -> bool:
    """Or fenced since: the append says which."""
    if producer is None or producer.epoch < refused.epoch:
        return False
    return producer.epoch > refused.epoch or (
        producer.last_sequence != NO_SEQUENCE
        and not _is_after(refused.sequence, producer.last_sequence)
    )


def _is_after(sequence: int, other: int) -> bool:
    """Sequence numbers wrap."""
    return 0 < ((sequence - other) & SEQUENCE_MASK) <= SEQUENCE_MASK // 2
