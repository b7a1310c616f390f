"""A broker that loses, delays and forgets, and a producer's outbox driven against it by chance.

In: a seed. Out: what the producer was told of each record, and what the log holds.
The broker here keeps Kafka's rules for sequence numbers and nothing else: a batch must follow the
last one of its producer id and epoch, one of the last five is a duplicate, a new epoch starts at 0;
of a producer that is not known, whatever comes first is taken.
With `recreated`, the topic is also deleted and created again: each topic id has logs of its own.
Produce requests name the topic, or since version 13 its id.
"""

from collections import deque
from random import Random
from uuid import UUID

from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.batches import Delivery
from barnabas.client.producer.outbox import Outbox, Outgoing
from barnabas.client.producer.settings import ProducerSettings
from barnabas.model.errors import Code, Retriable
from barnabas.wire.batch import read_header
from barnabas.wire.messages.produce import PartitionProduceResponse
from barnabas.wire.records import decode_batch

TOPIC = "t"
PARTITIONS = 2
NODES = 3
REMEMBERED = 5


class Log:
    """One partition, wherever it is led."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._epoch = -1
        self._next = 0
        self._recent: deque[tuple[int, int, int, int]] = deque(maxlen=REMEMBERED)

    def append(self, data: bytes, size_max: int) -> tuple[int, int]:
        """An error code and a base offset."""
        header = read_header(data)
        if len(data) > size_max:
            return Code.MESSAGE_TOO_LARGE, -1
        epoch, first, count = header.producer_epoch, header.base_sequence, header.record_count
        if header.producer_id >= 0:
            for seen_epoch, seen_first, seen_count, offset in self._recent:
                if (seen_epoch, seen_first, seen_count) == (epoch, first, count):
                    return Code.NONE, offset
            if epoch < self._epoch:
                return Code.INVALID_PRODUCER_EPOCH, -1
            if epoch > self._epoch:
                if first != 0 and self._epoch >= 0:
                    return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            elif first != self._next:
                return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self._epoch, self._next = epoch, first + count
        offset = len(self.values)
        self.values += [record.value or b"" for record in decode_batch(data)]
        self._recent.append((epoch, first, count, offset))
        return Code.NONE, offset


class Flight:
    """A request on a connection: what it carries, and whether it was cut off."""

    def __init__(self, outgoing: Outgoing, topic_id: UUID) -> None:
        self.outgoing = outgoing
        self.topic_id = topic_id
        self.data = [bytes(batch.data or b"") for batch in outgoing.batches]
        self.answers: dict[tuple[str, int], PartitionProduceResponse] | None = None


class History:
    """One run."""

    def __init__(self, seed: int, *, recreated: bool = False, **settings: object) -> None:
        self.random = Random(seed)
        self._recreated = recreated
        self.by_id = recreated and self.random.random() < 0.5
        self.topic_id = self._learned_id = UUID(int=1)
        self.exists = True
        self.now = 0
        self.settings = ProducerSettings(
            linger_ms=self.random.choice((0, 0, 5)),
            in_flight_max=self.random.choice((1, 2, 5)),
            delivery_timeout_ms=1_000_000,
            backoff_ms=10,
            backoff_ms_max=50,
        )._replace(**settings)  # type: ignore[arg-type]
        self.accumulator = Accumulator(
            batch_size_max=self.random.choice((80, 200, 1_000)),
            buffer_size_max=1 << 30,
            record_size_max=1 << 20,
            clock=lambda: self.now / 1000,
            wall=lambda: self.now / 1000,
            chance=self.random.random,
            wake=lambda: None,
        )
        self.outbox = Outbox(self.accumulator, self.settings, self.random.random)
        self.outbox.identify(7, 0)
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.deleted_logs: list[list[Log]] = []
        self.leaders = dict.fromkeys(range(PARTITIONS), 0)
        self.learn()
        self.connections: dict[int, deque[Flight]] = {node: deque() for node in range(NODES)}
        self.sent: list[tuple[int, bytes, Delivery]] = []
        self.calm = False
        self.size_max = self.random.choice((150, 400, 1 << 20))

    # --- what may happen ---

    def send(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        value = b"%d" % len(self.sent)
        delivery = self.accumulator.add(TOPIC, value, None, (), partition, None, None)
        self.sent.append((partition, value, delivery))

    def poll(self) -> None:
        for outgoing in self.outbox.poll(self.now, lambda node: True):
            self.connections[outgoing.node].append(Flight(outgoing, self._learned_id))

    def arrive(self) -> None:
        """The broker handles the oldest request that it has not seen yet, of some connection."""
        for node, flights in self.connections.items():
            for flight in flights:
                if flight.answers is None:
                    self._handle(node, flight)
                    break

    def _handle(self, node: int, flight: Flight) -> None:
        flight.answers = {}
        for batch, data in zip(flight.outgoing.batches, flight.data, strict=True):
            assert batch.queue is not None
            number = batch.queue.partition
            if not self.exists or (self.by_id and flight.topic_id != self.topic_id):
                refused = Code.UNKNOWN_TOPIC_ID if self.by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
                code, offset = int(refused), -1
            elif self.leaders[number] != node:
                code, offset = int(Code.NOT_LEADER_OR_FOLLOWER), -1
            elif not self.calm and self.random.random() < 0.1:
                code, offset = int(Code.NOT_ENOUGH_REPLICAS), -1
            else:
                code, offset = self.logs[number].append(data, self.size_max)
                if not code and not self.calm and self.random.random() < 0.1:
                    # Written, and led elsewhere before it counted: the next leader has it.
                    code, offset = int(Code.NOT_LEADER_OR_FOLLOWER), -1
            flight.answers[TOPIC, number] = PartitionProduceResponse(
                index=number, error_code=code, base_offset=offset
            )

    def answer(self) -> None:
        for flights in self.connections.values():
            if flights and flights[0].answers is not None:
                flight = flights.popleft()
                assert flight.answers is not None
                self.outbox.answered(flight.outgoing, flight.answers, self.now)

    def cut(self) -> None:
        """A connection breaks; requests that have arrived may have been written."""
        flights = self.connections[self.random.randrange(NODES)]
        while flights:
            flight = flights.popleft()
            self.outbox.unanswered(
                flight.outgoing, Retriable(Code.NETWORK_EXCEPTION, "cut"), self.now
            )

    def move(self) -> None:
        """A leader changes; the producer learns of it sooner or later."""
        self.leaders[self.random.randrange(PARTITIONS)] = self.random.randrange(NODES)

    def recreate(self) -> None:
        """The topic is deleted, or created again under the same name."""
        if self.exists:
            self.exists = False
            self.deleted_logs.append(self.logs)
            return
        self.exists = True
        self.topic_id = UUID(int=self.topic_id.int + 1)
        self.logs = [Log() for _ in range(PARTITIONS)]

    def learn(self) -> None:
        if self.exists:
            self._learned_id = self.topic_id
            self.accumulator.topic_known(TOPIC, dict(self.leaders), self.topic_id)

    def wait(self) -> None:
        self.now += self.random.choice((1, 5, 20, 60))

    def run(self, steps: int) -> None:
        wild = (self.send, self.send, self.send, self.poll, self.poll, self.arrive, self.arrive,
                self.answer, self.answer, self.cut, self.move, self.learn, self.wait)  # fmt: skip
        for _ in range(steps):
            self.random.choice(wild)()
            if self._recreated and self.random.random() < 0.03:
                self.recreate()
        self.calm = True
        if not self.exists:
            self.recreate()
        self.outbox.flushing += 1
        for _ in range(20_000):
            if self.outbox.idle():
                return
            for step in (self.learn, self.poll, self.arrive, self.answer, self.wait):
                step()
        raise AssertionError("records are still under way after a long calm")
