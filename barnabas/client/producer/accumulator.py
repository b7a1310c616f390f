# cython: annotation_typing=False, infer_types=False
"""Collects records into batches, a queue of them per partition: the path of every record.

In: records. Out: batches to send, and a `Delivery` for each record, which gets its result.
Always: the records of a partition leave in the order they came; a record is encoded once, straight
into its batch; bytes are counted from `add` until the batch is finished.
Not here: linger.ms and when a batch leaves, what its answer means (outbox.py), waiting (aio/,
blocking/).

This is plain Python. If a compiler is available, Cython compiles this file with the types in
accumulator.pxd; `COMPILED` says which of the two is running.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from barnabas.client.producer.batches import Callback, Delivery, ProducerBatch, Queue
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.record_loops import Headers

COMPILED = not __file__.endswith(".py")

STICKY_SIZE = 16_384  # bytes of records without a key that go to one partition before the next

_MASK = 0xFFFF_FFFF
_MULTIPLIER = 0x5BD1_E995
_SEED = 0x9747_B28C
_RECORD_OVERHEAD_MAX = 36  # what a record has beside its key, value and headers


class BufferFull(Retriable):
    """`buffer.memory` is in use: wait (`drain`), and send again."""


Partitioner = Callable[[str, bytes | None, bytes | None, int], int]


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Java's default partitioner."""
    view = data
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = view[at] | view[at + 1] << 8 | view[at + 2] << 16 | view[at + 3] << 24
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        word = word * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        for at in range(whole, length):
            hashed ^= view[at] << 8 * (at - whole)
        hashed = hashed * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ (hashed >> 15)


class TopicQueue:
    """One topic: its partitions, once they are known, and the records that wait for that."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.count = 0
        self.queues: list[Queue] = []
        self.available: list[Queue] = []
        self.sticky: Queue | None = None
        self.sticky_left = 0
        self.limbo: list[tuple[Any, ...]] = []
        self.limbo_batch: ProducerBatch | None = None


class Accumulator:
    """`add` records; outbox.py takes the batches."""

    def __init__(
        self,
        *,
        batch_size_max: int,
        buffer_size_max: int,
        record_size_max: int,
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float],
        wake: Callable[[], None],
        partitioner: Partitioner | None = None,
    ) -> None:
        self._batch_size_max = batch_size_max
        self._record_size_max = record_size_max
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._wake = wake
        self._partitioner = partitioner
        self._topics: dict[str, TopicQueue] = {}
        self.buffer_size_max = buffer_size_max
        self.used = 0
        self.active: dict[Queue, None] = {}  # those with batches to send
        self.unknown: dict[str, TopicQueue] = {}  # topics with records in limbo
        self.unreported = 0  # failed records whose failure was not reported to their sender
        self._first_failure: KafkaError | None = None
        self._failure_round = 0  # `take_failed`s so far
        self.refreshing = False  # new partitions are wanted for a topic that is known
        # Of a transaction, which fails with any of its records: the error that they get instead.
        self.failing: Callable[[KafkaError], KafkaError] | None = None

    # --- for a driver to fill in ---

    def new_waiter(self) -> Any:
        raise InvalidRequest(
            Code.INVALID_REQUEST, "a blocking producer's record is not awaited: use result()"
        )

    def wait(self, delivery: Delivery, timeout: float | None) -> None:
        raise InvalidRequest(Code.INVALID_REQUEST, "the record has no answer yet: await it instead")

    def announce(self, batch: ProducerBatch) -> None:
        """The batch is finished: notify its waiters, now or soon."""
        batch.announce()

    # --- records in ---

    def check_room(self) -> None:
        """BufferFull if there is no room. Called before a record is prepared."""
        if self.used >= self.buffer_size_max:
            raise BufferFull(
                Code.REQUEST_TIMED_OUT,
                f"{self.used} bytes wait for their answers, buffer.memory is "
                f"{self.buffer_size_max}: drain() waits for room",
            )

    def add(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp: int | None,
        callback: Callback | None,
    ) -> Delivery:
        """Checks everything before it keeps anything; `check_room` was called before."""
        size = _RECORD_OVERHEAD_MAX
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers != ():
            size += _size_of(headers)
        if size > self._record_size_max:
            raise InvalidRequest(
                Code.MESSAGE_TOO_LARGE,
                f"a record of {size} bytes for topic {topic!r}: max.request.size is "
                f"{self._record_size_max}",
            )
        if partition is not None and partition < 0:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} has no partition {partition}"
            )
        if timestamp is None:
            seconds = self._wall()
            when = int(seconds * 1000.0)
        else:
            when = timestamp
        slot = self._topics.get(topic)
        if slot is None or slot.count == 0:
            return self._into_limbo(topic, value, key, headers, partition, when, callback, size)
        queue = None
        if partition is not None:
            if partition >= slot.count:
                return self._into_limbo(topic, value, key, headers, partition, when, callback, size)
            queue = slot.queues[partition]
        elif self._partitioner is not None:
            queue = self._chosen(slot, key, value)
        elif key is not None:
            queue = slot.queues[(murmur2(key) & 0x7FFF_FFFF) % slot.count]
        else:
            queue = slot.sticky
            if queue is None or slot.sticky_left <= 0:
                queue = self._another(slot)
            slot.sticky_left -= size
        batch = self._append(queue, value, key, headers, when)
        delivery = Delivery.__new__(Delivery)  # its __init__ would take as long as all the rest
        delivery._owner = self
        delivery._batch = batch
        delivery._index = batch.count - 1
        delivery._reported = False
        delivery.timestamp = when
        if callback is not None:
            if batch.callbacks is None:
                batch.callbacks = []
            batch.callbacks.append((delivery, callback))
        return delivery

    def _append(
        self,
        queue: Queue,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp: int,
    ) -> ProducerBatch:
        batch = queue.open
        if batch is not None:
            before = len(batch.buffer)
            if batch.append(key, value, headers, timestamp):
                grown = len(batch.buffer) - before
                batch.counted += grown
                self.used += grown
                return batch
            queue.open = None
        self._wake()  # it may refuse, so nothing is kept yet
        batch = ProducerBatch(queue, self._batch_size_max, int(self._clock() * 1000.0))
        batch.append(key, value, headers, timestamp)
        batch.counted = len(batch.buffer)
        self.used += batch.counted
        batch.serial = (queue.serials,)
        queue.serials += 1
        # Only now, so that a record that cannot be encoded leaves no empty batch behind.
        queue.open = batch
        queue.waiting.append(batch)
        self.active[queue] = None
        return batch

    def _chosen(self, slot: TopicQueue, key: bytes | None, value: bytes | None) -> Queue:
        assert self._partitioner is not None
        number = self._partitioner(slot.topic, key, value, slot.count)
        if not hasattr(number, "__index__"):  # also numpy's
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"the partitioner {self._partitioner!r:.200} returned {number!r:.100} for topic"
                f" {slot.topic!r}: it must return the number of a partition",
            )
        if not 0 <= number < slot.count:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"the partitioner chose partition {number} of topic {slot.topic!r}, which has "
                f"{slot.count}",
            )
        return slot.queues[number]

    def _another(self, slot: TopicQueue) -> Queue:
        """The next partition for records without keys, one with a leader if there is any."""
        choices = slot.available or slot.queues[: slot.count]
        queue = choices[int(self._chance() * len(choices)) % len(choices)]
        slot.sticky = queue
        slot.sticky_left = STICKY_SIZE
        return queue

    # --- topics that are not known yet ---

    def _into_limbo(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp: int,
        callback: Callback | None,
        size: int,
    ) -> Delivery:
        if topic not in self.unknown:
            self._wake()  # it may refuse, so nothing is kept yet
        slot = self._topics.get(topic)
        if slot is None:
            slot = self._topics[topic] = TopicQueue(topic)
        if slot.limbo_batch is None:
            slot.limbo_batch = ProducerBatch(None, 0, int(self._clock() * 1000.0))
        delivery = Delivery(self, slot.limbo_batch, 0, timestamp)
        slot.limbo.append((delivery, value, key, headers, partition, timestamp, callback, size))
        self.used += size
        if slot.count:
            self.refreshing = True
        self.unknown[topic] = slot
        return delivery

    def topic_known(
        self, topic: str, leaders: dict[int, int], topic_id: UUID = NO_TOPIC_ID
    ) -> None:
        """Its partitions are these, 0 to n-1, each with its leader or -1."""
        slot = self._topics.get(topic)
        if slot is None:
            slot = self._topics[topic] = TopicQueue(topic)
        for number in range(len(slot.queues), len(leaders)):
            slot.queues.append(Queue(topic, number))
        # Fewer than before: the topic is another of the same name.
        slot.count = len(leaders)
        for queue in slot.queues:
            queue.leader = leaders.get(queue.partition, -1)
            queue.learned(topic_id)
        slot.available = [queue for queue in slot.queues if queue.leader >= 0]
        if slot.sticky is not None and slot.sticky.leader < 0:
            slot.sticky = None
        if slot.count and topic in self.unknown:
            self._out_of_limbo(slot)

    def _out_of_limbo(self, slot: TopicQueue) -> None:
        del self.unknown[slot.topic]
        limbo, slot.limbo = slot.limbo, []
        before, slot.limbo_batch = slot.limbo_batch, None
        for delivery, value, key, headers, partition, timestamp, callback, size in limbo:
            self.used -= size
            try:
                if partition is not None and partition >= slot.count:
                    raise InvalidRequest(
                        Code.UNKNOWN_TOPIC_OR_PARTITION,
                        f"topic {slot.topic!r} has no partition {partition}: it has {slot.count}",
                    )
                placed = self.add(slot.topic, value, key, headers, partition, timestamp, None)
            except Exception as why:
                refused = ProducerBatch(None, 0, 0)
                self.fail(refused, why if isinstance(why, KafkaError) else _unsendable(why), 1)
                placed = Delivery(self, refused, 0, timestamp)
            delivery.follow(placed)
            if callback is not None:
                holder = placed._batch
                if holder.callbacks is None:
                    holder.callbacks = []
                holder.callbacks.append((delivery, callback))
                if holder.done:
                    self.announce(holder)
        if before is not None:
            before.done = True
            self.announce(before)

    def topic_failed(self, topic: str, problem: KafkaError) -> None:
        """Give up the records that wait for it."""
        slot = self.unknown.pop(topic)
        limbo, slot.limbo = slot.limbo, []
        batch, slot.limbo_batch = slot.limbo_batch, None
        if batch is None:
            return
        self.fail(batch, problem, len(limbo))
        for delivery, _, _, _, _, _, callback, size in limbo:
            self.used -= size
            if callback is not None:
                if batch.callbacks is None:
                    batch.callbacks = []
                batch.callbacks.append((delivery, callback))
        self.announce(batch)

    def fail(self, batch: ProducerBatch, problem: KafkaError, records: int) -> None:
        """Nothing of it was written, and its senders do not know it yet."""
        if self.failing is not None:
            problem = self.failing(problem)
        batch.fail(problem, self._failure_round)
        if self.unreported == 0:
            self._first_failure = problem
        self.unreported += records

    def failure_reported(self, batch: ProducerBatch) -> None:
        """The sender of one of its records knows that it failed."""
        if batch.failure_round == self._failure_round:
            self.unreported -= 1

    def take_failed(self) -> tuple[int, KafkaError | None]:
        """How many failures were not reported to the sender, and the first reason.

        This call reports them.
        """
        count = self.unreported
        self.unreported = 0
        self._failure_round += 1
        return count, self._first_failure if count else None

    def topics(self) -> list[str]:
        return list(self._topics)

    def queues(self) -> list[Queue]:
        return [queue for slot in self._topics.values() for queue in slot.queues]

    def limbo_since(self, topic: str) -> int:
        """When the first record that waits for this topic was added."""
        batch = self.unknown[topic].limbo_batch
        return 0 if batch is None else batch.created_at


def _size_of(headers: Headers) -> int:
    """An upper bound: two lengths of up to five bytes for each name and value."""
    size = 0
    for name, value in headers:
        size += 10 + len(name.encode("utf-8", "surrogatepass"))
        if value is not None:
            size += len(value)
    return size


def _unsendable(why: Exception) -> KafkaError:
    return InvalidRequest(Code.INVALID_RECORD, f"{type(why).__name__}: {why}")
