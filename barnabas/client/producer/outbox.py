"""Decides which batches leave, in which request, and what their answers mean.

In: time, a producer id, answers. Out: requests to send, batches finished, and whether a producer
id is wanted.
Always: the batches of a partition are written in the order of their records, each once, as long as
the producer is idempotent; a batch that was sent keeps its bytes and sequence numbers until it is
known not to be written; every batch is finished by `delivery_timeout_ms` after its first record,
but for the request that may be under way.
Not here: records (accumulator.py), their bytes (sealing.py), sequence numbers (sequences.py), what
follows the end of a batch (batch_results.py), leaders (metadata_refresh.py), transactions
(transactions.py), sockets (aio/, blocking/).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.errors import partition_error
from barnabas.client.producer import sequences
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.batch_results import BatchResults, queue_of
from barnabas.client.producer.batches import ProducerBatch, Queue
from barnabas.client.producer.metadata_refresh import MetadataRefresh
from barnabas.client.producer.produce_errors import MAYBE_WRITTEN, NUMBER_REFUSED, STALE
from barnabas.client.producer.sealing import sealed
from barnabas.client.producer.sequences import ProducerIdentity
from barnabas.client.producer.settings import ProducerSettings
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import HEADER_SIZE
from barnabas.wire.messages.produce import PartitionProduceResponse

if TYPE_CHECKING:
    from barnabas.client.producer.transactions import Transactions

_REQUEST_OVERHEAD = 512
_LOOKUPS_MIN = 2
_SOON_MS = 20  # until a transaction that is still being completed is looked at again


class Outgoing(NamedTuple):
    """One request: a batch each of some partitions that a broker leads."""

    node: int
    batches: list[ProducerBatch]


class Outbox:
    """`poll` for requests; say what was answered."""

    def __init__(
        self,
        accumulator: Accumulator,
        settings: ProducerSettings,
        chance: Callable[[], float],
        transactions: "Transactions | None" = None,
    ) -> None:
        self.accumulator = accumulator
        self.settings = settings
        self.transactions = transactions
        if transactions is not None:
            accumulator.failing = transactions.batch_failed
        self._chance = chance
        self._identity: ProducerIdentity | None = None
        self._in_flight: dict[int, int] = {}
        self.metadata_refresh = MetadataRefresh(accumulator, settings)
        self.flushing = 0  # flows that wait until everything is sent
        self.results = BatchResults(accumulator)

    # --- requests ---

    def poll(self, now: int, ready: Callable[[int], bool]) -> list[Outgoing]:
        """Requests to send now. `ready`: can this broker be sent to?"""
        if self.transactions is not None and not self.transactions.sending:
            if self.accumulator.used and self.transactions.error is not None:
                self.results.drop(self.transactions.error)
            return []
        if not self.accumulator.active:
            return []
        pressed = self.flushing > 0 or self.accumulator.used >= self.accumulator.buffer_size_max
        requests: dict[int, Outgoing] = {}
        sizes: dict[int, int] = {}
        full: set[int] = set()
        for queue in list(self.accumulator.active):
            self._expire(queue, now)
            if not queue.waiting:
                self.accumulator.active.pop(queue, None)
                continue
            node = queue.leader
            if node in full or not self._may_send(queue, now, pressed):
                continue
            if self._in_flight.get(node, 0) >= self.settings.in_flight_max or not ready(node):
                full.add(node)
                continue
            batch = queue.waiting[0]
            size = sizes.get(node, _REQUEST_OVERHEAD) + len(batch.data or batch.buffer)
            if node in requests and size > self.settings.request_size_max:
                full.add(node)
                continue
            sizes[node] = size
            requests.setdefault(node, Outgoing(node, [])).batches.append(self._take(queue))
            # To the end: a queue that did not fit is the first in the next request.
            self.accumulator.active.pop(queue, None)
            if queue.waiting:
                self.accumulator.active[queue] = None
        for node in requests:
            self._in_flight[node] = self._in_flight.get(node, 0) + 1
        self.results.announce()
        return list(requests.values())

    def _may_send(self, queue: Queue, now: int, pressed: bool) -> bool:
        if queue.leader < 0:
            self.metadata_refresh.stale = True
            return False
        if now < queue.retry_at:
            return False
        batch = queue.waiting[0]
        if not (
            pressed
            or batch is not queue.open
            or batch.attempts
            or now >= batch.created_at + self.settings.linger_ms
        ):
            return False
        if not self.settings.idempotent:
            return True
        if self.transactions is not None:
            return self._may_send_in(self.transactions, queue, batch)
        if self._identity is None or self._identity.spent:
            return False
        if not sequences.renumber(queue, self._identity):
            return False
        return sequences.follows(queue, batch)

    def _may_send_in(
        self, transactions: "Transactions", queue: Queue, batch: ProducerBatch
    ) -> bool:
        if not transactions.may_leave(TopicPartition(queue.topic, queue.partition)):
            return False
        if not sequences.adopt(queue, transactions.producer_id, transactions.epoch):
            again = f"{_name(queue)}: the topic was deleted and created again"
            transactions.must_abort(Retriable(Code.UNKNOWN_TOPIC_ID, again))
            return False
        return sequences.follows(queue, batch)

    def _take(self, queue: Queue) -> ProducerBatch:
        batch = queue.waiting.popleft()
        if batch is queue.open:
            queue.open = None
        if self.settings.idempotent and batch.sequence < 0:
            sequences.number(queue, batch)
        if self.transactions is not None:
            self.transactions.leaves()
        if batch.data is None:
            transactional = self.transactions is not None
            batch.data = sealed(batch, self.settings.codec, transactional=transactional)
        batch.attempts += 1
        batch.node = queue.leader
        queue.flying.append(batch)
        return batch

    def _expire(self, queue: Queue, now: int) -> None:
        limit = self.settings.delivery_timeout_ms
        while queue.waiting and now >= queue.waiting[0].created_at + limit:
            batch = queue.waiting.popleft()
            if batch is queue.open:
                queue.open = None
            why = batch.last_problem
            said = f": {why.detail}" if why is not None else ""
            self.results.give_up(
                batch,
                Retriable(
                    Code.REQUEST_TIMED_OUT,
                    f"{_name(queue)}: not written within delivery.timeout.ms={limit}{said}",
                ),
            )

    # --- answers ---

    def answered(
        self,
        outgoing: Outgoing,
        answers: Mapping[tuple[str, int], PartitionProduceResponse],
        now: int,
    ) -> None:
        """The broker said something of each batch."""
        self._landed(outgoing)
        for batch in outgoing.batches:
            queue = queue_of(batch)
            answer = answers.get((queue.topic, queue.partition))
            queue.flying.remove(batch)
            if answer is None:
                batch.unsure = True
                why = Corrupt(f"{_name(queue)} is missing in the answer")
                self._again(batch, why, now)
            elif answer.error_code == Code.NONE:
                self.results.written(batch, answer.base_offset, answer.log_append_time_ms)
            else:
                self._refused(batch, answer, now)
        self.results.announce()

    def unanswered(self, outgoing: Outgoing, problem: KafkaError, now: int) -> None:
        """It may have been written, or not."""
        self._landed(outgoing)
        for batch in outgoing.batches:
            queue = queue_of(batch)
            queue.flying.remove(batch)
            batch.unsure = True
            if isinstance(problem, Retriable | Corrupt):
                self._again(batch, problem, now)
            else:
                self.results.give_up(batch, problem)
        self.metadata_refresh.stale = True
        self.results.announce()

    def sent_one_way(self, outgoing: Outgoing) -> None:
        """Sent without acks, every byte of it: nothing more will be known."""
        self._landed(outgoing)
        for batch in outgoing.batches:
            queue_of(batch).flying.remove(batch)
            self.results.written(batch, -1, -1)
        self.results.announce()

    def unsent(self, outgoing: Outgoing, problem: KafkaError, now: int) -> None:
        """It did not leave: the connection is gone, or the request cannot be made."""
        self.unanswered(outgoing, problem, now)

    def _landed(self, outgoing: Outgoing) -> None:
        self._in_flight[outgoing.node] -= 1

    def _refused(self, batch: ProducerBatch, answer: PartitionProduceResponse, now: int) -> None:
        queue = queue_of(batch)
        code = answer.error_code
        if code == Code.MESSAGE_TOO_LARGE and batch.count > 1:
            self.results.split(batch)
            return
        why = partition_error(code, answer.error_message, about=_name(queue))
        if code in MAYBE_WRITTEN:
            batch.unsure = True
        if code in NUMBER_REFUSED and self.transactions is not None:
            if code == Code.DUPLICATE_SEQUENCE_NUMBER:
                self.results.written(
                    batch, -1, -1
                )  # in this epoch, by an attempt that was not answered
                return
            if code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER and not sequences.is_next(queue, batch):
                why = Retriable(why.code, why.detail)  # the one before it was refused, and comes
        elif code in NUMBER_REFUSED and self.settings.idempotent:
            if self._number_refused(batch, code):
                self.results.written(batch, -1, -1)  # so long ago that the broker knows it no more
                return
            why = Retriable(why.code, why.detail)
        elif code == Code.MESSAGE_TOO_LARGE:
            detail = f"{_name(queue)}: a record of {batch.counted - HEADER_SIZE} bytes is over"
            why = InvalidRequest(why.code, f"{detail} the topic's max.message.bytes")
        if isinstance(why, Retriable):
            self._again(batch, why, now)
        else:
            self.results.give_up(batch, why)

    def _number_refused(self, batch: ProducerBatch, code: int) -> bool:
        """Whether the batch is known to have been written; else it is sent again."""
        queue = queue_of(batch)
        duplicate = code == Code.DUPLICATE_SEQUENCE_NUMBER and sequences.is_current(queue, batch)
        behind = sequences.is_behind(queue, batch)
        if batch.unsure and (duplicate or behind):
            # A batch after it is written, in the same topic or in a new one of that name. Metadata
            # tells; the first response may be the answer to a request from before.
            if batch.doubted_at < 0:
                batch.doubted_at = queue.lookups
            self.metadata_refresh.stale = True
            return queue.lookups >= batch.doubted_at + _LOOKUPS_MIN
        batch.unsure = False  # had it been written, the broker would know its numbers
        if duplicate or behind or sequences.is_next(queue, batch):
            queue.lost = True
        return False

    def _again(self, batch: ProducerBatch, why: KafkaError, now: int) -> None:
        queue = queue_of(batch)
        batch.last_problem = why
        if why.code in STALE:
            self.metadata_refresh.stale = True
        ended = self.transactions is not None and not self.transactions.sending
        if batch.attempts > self.settings.retries_max or ended:
            self.results.give_up(batch, why)
            return
        first = _SOON_MS if why.code is Code.CONCURRENT_TRANSACTIONS else self.settings.backoff_ms
        bound = min(first << min(queue.retries, 20), self.settings.backoff_ms_max)
        queue.retries += 1
        queue.retry_at = now + int(bound * (0.5 + self._chance() / 2))
        sequences.requeue(queue, batch)
        self.accumulator.active[queue] = None

    # --- what is known of the cluster ---

    def wants_identity(self) -> bool:
        known = self._identity is not None and not self._identity.spent
        wanted = self.settings.idempotent and self.transactions is None
        return wanted and not known and bool(self.accumulator.active)

    def identify(self, producer_id: int, epoch: int) -> None:
        self._identity = ProducerIdentity(producer_id, epoch)

    def unidentified(self, problem: KafkaError, *, for_good: bool) -> None:
        """No producer id was given; if that is so for good, nothing can be sent."""
        for queue in list(self.accumulator.active):
            self._blame(queue, problem)
            while for_good and queue.waiting:
                batch = queue.waiting.popleft()
                if batch is queue.open:
                    queue.open = None
                self.results.give_up(batch, problem)
        self.results.announce()

    def unreachable(self, node: int, problem: KafkaError) -> None:
        """A leader cannot be connected to: perhaps it is another by now."""
        self.metadata_refresh.stale = True
        for queue in self.accumulator.active:
            if queue.leader == node:
                self._blame(queue, problem)

    def _blame(self, queue: Queue, problem: KafkaError) -> None:
        if queue.waiting:
            queue.waiting[0].last_problem = problem

    # --- time ---

    def next_deadline(self, now: int) -> int | None:
        """When to poll again, if nothing happens before."""
        times: list[int] = []
        for queue in self.accumulator.active:
            if queue.waiting:
                batch = queue.waiting[0]
                times.append(batch.created_at + self.settings.delivery_timeout_ms)
                if now < queue.retry_at:
                    times.append(queue.retry_at)
                if batch is queue.open and now < batch.created_at + self.settings.linger_ms:
                    times.append(batch.created_at + self.settings.linger_ms)
        times += self.metadata_refresh.deadlines(now)
        return min(times, default=None)

    def idle(self) -> bool:
        """Nothing waits, nothing is under way."""
        return self.accumulator.used == 0


def _name(queue: Queue) -> str:
    return f"{queue.topic}-{queue.partition}"
