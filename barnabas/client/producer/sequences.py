"""Numbers batches, so that a broker writes each once and in order however often it is sent.

In: batches of one partition, as they are taken, answered, given up. Out: their producer id, epoch
and first sequence number.
Always: the numbers of a partition have no gap within an epoch; a batch is sent again with the
numbers it had, unless it is known that it was not written; numbers belong to a topic id, and say
nothing about another topic of the same name.

Gap: a batch was rejected permanently. Later batches take its sequence numbers.
Loss: the producer gave up a batch that may have been written, the broker has forgotten the
producer, or the topic was deleted and created again. Only a new epoch, in which numbers start at 0,
is safe (as in Kafka's own client, KIP-360).
In both cases the producer first waits until every later batch is known not to be written: a batch
whose answer was lost (`unsure`) is sent once more with the numbers it had.

A broker that does not know a producer takes whatever number comes first. So until a leader has
acknowledged a batch it is sent one at a time: if it refused one and took the next, the first could
never be written, and would pass for one that was written long ago.
"""

from collections.abc import Iterable

from barnabas.client.producer.batches import ProducerBatch, Queue
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.batch import rewrite_producer

_COUNT = 2**31  # sequence numbers wrap to 0
_EPOCH_MAX = 2**15 - 2


class ProducerIdentity:
    """The producer, as brokers know it. `spent`: another producer id is needed."""

    __slots__ = ("epoch", "producer_id", "spent")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.spent = False

    def bump(self) -> None:
        if self.epoch >= _EPOCH_MAX:
            self.spent = True
        else:
            self.epoch += 1


def after(sequence: int, count: int) -> int:
    return (sequence + count) % _COUNT


def number(queue: Queue, batch: ProducerBatch) -> None:
    """Of a batch that leaves for the first time."""
    batch.producer_id = queue.producer_id
    batch.epoch = queue.epoch
    batch.topic_id = queue.topic_id
    batch.doubted_at = -1
    batch.sequence = queue.sequence
    queue.sequence = after(queue.sequence, batch.count)


def follows(queue: Queue, batch: ProducerBatch) -> bool:
    """Whether the batch may be sent while others are in flight. A batch that is sent again may
    have to wait for them. All wait if the leader has changed: order is not preserved across two
    connections."""
    if not queue.flying:
        return True
    last = queue.flying[-1]
    if last.node != queue.leader or queue.known_to != queue.leader:
        return False
    return batch.sequence < 0 or after(last.sequence, last.count) == batch.sequence


def requeue(queue: Queue, batch: ProducerBatch) -> None:
    """Back among those that wait, in the order of their records."""
    place = 0
    for waiting in queue.waiting:
        if waiting.serial > batch.serial:
            break
        place += 1
    queue.waiting.insert(place, batch)


def acknowledged(queue: Queue, batch: ProducerBatch) -> None:
    """It is written, and so are all before it."""
    if batch.sequence < 0 or not is_current(queue, batch):
        return
    queue.known_to = batch.node
    end = after(batch.sequence, batch.count)
    if (end - queue.acknowledged) % _COUNT < _COUNT // 2:  # never back
        queue.acknowledged = end


def is_current(queue: Queue, batch: ProducerBatch) -> bool:
    """Its numbers are of the topic, producer id and epoch in which the partition is written now."""
    return (
        batch.topic_id in (queue.topic_id, NO_TOPIC_ID)
        and batch.producer_id == queue.producer_id
        and batch.epoch == queue.epoch
    )


def is_behind(queue: Queue, batch: ProducerBatch) -> bool:
    """Whether a later batch is acknowledged: then this batch is written too."""
    if not is_current(queue, batch):
        return False
    return (queue.acknowledged - after(batch.sequence, batch.count)) % _COUNT < _COUNT // 2


def is_next(queue: Queue, batch: ProducerBatch) -> bool:
    """All before it is written: an answer that something is missing means a loss."""
    return is_current(queue, batch) and batch.sequence == queue.acknowledged


def renumber(queue: Queue, identity: ProducerIdentity) -> bool:
    """Mend gaps and losses; False while that must wait for those under way."""
    if queue.producer_id == identity.producer_id and not queue.gap and not queue.lost:
        return True
    if queue.waiting[0].unsure:  # then it is numbered: numbered ones are in front
        return True
    if queue.flying:
        return False
    for batch in queue.waiting:
        batch.unsure = False  # no leader took it after one before it was refused
    same = queue.producer_id == identity.producer_id
    if same and queue.lost and queue.epoch >= identity.epoch:
        identity.bump()
        if identity.spent:
            return False
    if queue.lost or not same:
        queue.producer_id, queue.epoch = identity.producer_id, identity.epoch
        queue.acknowledged = 0
        queue.known_to = -1
    queue.gap = queue.lost = False
    queue.sequence = queue.acknowledged
    _restamp(queue, (batch for batch in queue.waiting if batch.sequence >= 0))
    return True


def adopt(queue: Queue, producer_id: int, epoch: int) -> bool:
    """In a transaction: number from 0 in a new epoch. False: numbers were lost within this one.

    The coordinator gives epochs out, so a loss is not mended here: the transaction is aborted.
    """
    if queue.producer_id != producer_id or queue.epoch != epoch:
        queue.producer_id, queue.epoch = producer_id, epoch
        queue.sequence = queue.acknowledged = 0
        queue.known_to = -1
        queue.gap = queue.lost = False
    return not (queue.gap or queue.lost)


def _restamp(queue: Queue, batches: Iterable[ProducerBatch]) -> None:
    for batch in batches:
        number(queue, batch)
        if batch.data is not None:
            rewrite_producer(batch.data, batch.producer_id, batch.epoch, batch.sequence)
