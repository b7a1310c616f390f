"""Producers that go on through every kill: librdkafka's, and one of our own on bare sockets.

In: partitions to write to. Out: acknowledgements, into the ledgers.
Always: what was sent and not acknowledged is sent again, in order, with its old sequence.
"""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from barnabas.wire.compression import Codec
from barnabas.wire.frames import read_response
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.kill.ledger import Mark, PartitionLedger, Violation
from tests.raw import RawClient, batch_of, name_of
from tests.waiting import WAIT_S

WINDOW = 5  # batches of one producer that the broker remembers per partition
RECONNECT_S = 0.005
PAUSES_S = (0, 0, 0, 0.01, 0.04)  # bursts, yet not so many records that reading takes over
QUEUED_MAX = 500
FILL = b"." * 400
PRODUCE_VERSIONS = (3, 12)  # those that name topics

Place = tuple[str, int]
Delivered = Callable[[KafkaError | None, Message], None]


class LoadProducer(ABC):
    """A thread that writes until it is told to finish."""

    def __init__(self, name: str, port: int, ledgers: dict[Place, PartitionLedger]) -> None:
        self.name = name
        self.port = port
        self.ledgers = ledgers
        self.written = dict.fromkeys(ledgers, 0)
        self.acknowledged = 0
        self.failure: Exception | None = None
        self.finishing = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Everything written must be acknowledged before the thread ends."""
        self.finishing.set()
        self._thread.join(timeout_s)
        self.check()
        if self._thread.is_alive():
            raise Violation(f"{self.name}: not everything acknowledged in {timeout_s} s")

    def check(self) -> None:
        if self.failure is not None:
            raise Violation(f"{self.name}: {self.failure!r}") from self.failure

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception as failure:
            self.failure = failure

    def next_mark(self, place: Place) -> Mark:
        mark = Mark(self.name, self.written[place])
        self.written[place] += 1
        return mark

    @abstractmethod
    def run(self) -> None: ...


class RdkafkaProducer(LoadProducer):
    """librdkafka, as a user of confluent-kafka would set it for safety."""

    def __init__(
        self, name: str, port: int, ledgers: dict[Place, PartitionLedger], random: Random
    ) -> None:
        super().__init__(name, port, ledgers)
        self._random = random
        self._settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": random.choice((0, 1, 5)),
            "batch.num.messages": random.choice((1, 10, 1000)),
            "batch.size": 30_000,  # less than the smallest segment
            "compression.type": random.choice(("none", "lz4", "gzip")),
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 40,
            "retry.backoff.ms": 10,
            "socket.timeout.ms": 10_000,
            "queue.buffering.max.messages": QUEUED_MAX * 2,
            "log_level": 0,
        }

    def run(self) -> None:
        producer = Producer(self._settings)
        places = list(self.ledgers)
        while not self.finishing.is_set():
            if len(producer) >= QUEUED_MAX:
                producer.poll(0.005)
                continue
            for _ in range(self._random.randrange(1, 40)):
                place = self._random.choice(places)
                mark = self.next_mark(place)
                topic, partition = place
                value = mark.encode() + FILL[: self._random.randrange(len(FILL))]
                producer.produce(
                    topic, value, partition=partition, on_delivery=self._told(place, mark)
                )
            producer.poll(0.01)
        producer.flush(WAIT_S)
        if len(producer):
            raise Violation(f"{len(producer)} records neither acknowledged nor refused")

    def _told(self, place: Place, mark: Mark) -> Delivered:
        def told(error: KafkaError | None, message: Message) -> None:
            try:
                if error is not None:
                    raise KafkaException(error)
                offset = message.offset()
                assert offset is not None
                self.ledgers[place].acknowledged(offset, mark)
                self.acknowledged += 1
            except Exception as failure:
                self.failure = self.failure or failure

        return told


class Batch(NamedTuple):
    """One batch on its way."""

    place: Place
    first: int
    records: int
    data: bytes


class RawProducer(LoadProducer):
    """Requests pipelined on one connection, several partitions in some, every version."""

    def __init__(
        self, name: str, port: int, ledgers: dict[Place, PartitionLedger], random: Random
    ) -> None:
        super().__init__(name, port, ledgers)
        self._random = random
        self._unanswered: dict[Place, deque[Batch]] = {place: deque() for place in ledgers}
        self._identity: tuple[int, int] | None = None

    def run(self) -> None:
        while not self._done():
            try:
                with RawClient("127.0.0.1", self.port, timeout_s=WAIT_S) as client:
                    self._write(client)
            except TimeoutError:
                raise
            except OSError:
                self.finishing.wait(RECONNECT_S)

    def _done(self) -> bool:
        return self.finishing.is_set() and not any(self._unanswered.values())

    def _write(self, client: RawClient) -> None:
        if self._identity is None:
            asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            answer = client.call(asked, 4, InitProducerIdResponse)
            self._identity = (answer.producer_id, answer.producer_epoch)
        sent = deque(
            self._send(client, [batch])
            for waiting in self._unanswered.values()
            for batch in waiting
        )
        ahead = self._random.randrange(1, 20)
        while sent or not self.finishing.is_set():
            batches = self._new_batches() if len(sent) < ahead else []
            if batches:
                sent.append(self._send(client, batches))
                self.finishing.wait(self._random.choice(PAUSES_S))
            else:
                self._answered(client, *sent.popleft())

    def _new_batches(self) -> list[Batch]:
        """For one partition, or for several in one request; none where five wait."""
        if self.finishing.is_set():
            return []
        open_ = [p for p, waiting in self._unanswered.items() if len(waiting) < WINDOW]
        if not open_:
            return []
        count = self._random.choice((1, 1, 2, len(open_)))
        places = self._random.sample(open_, min(count, len(open_)))
        return [self._new_batch(place) for place in places]

    def _new_batch(self, place: Place) -> Batch:
        assert self._identity is not None
        count = self._random.choice((1, 1, 2, 10, 60))
        first = self.written[place]
        marks = [self.next_mark(place) for _ in range(count)]
        fill = FILL[: self._random.randrange(len(FILL))]
        data = batch_of(
            *(mark.encode() + fill for mark in marks),
            codec=self._random.choice((Codec.NONE, Codec.NONE, Codec.LZ4)),
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=first,
        )
        batch = Batch(place, first, count, bytes(data))
        self._unanswered[place].append(batch)
        return batch

    def _send(self, client: RawClient, batches: Sequence[Batch]) -> tuple[int, list[Batch]]:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            topic, partition = batch.place
            data = PartitionProduceData(index=partition, records=batch.data)
            topics.setdefault(topic, []).append(data)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=data) for topic, data in topics.items()
            ],
        )
        version = self._random.randint(*PRODUCE_VERSIONS)
        client.begin(request, version)
        return version, list(batches)

    def _answered(self, client: RawClient, version: int, batches: list[Batch]) -> None:
        _, answer = read_response(client.receive(), 0, version)
        assert isinstance(answer, ProduceResponse)
        offsets = {
            (topic.name, partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }
        for batch in batches:
            told = offsets[batch.place]
            if told.error_code:
                raise Violation(f"{batch.place} refused: {name_of(told.error_code)}: {told}")
            oldest = self._unanswered[batch.place].popleft()
            assert oldest is batch, "replies come in the order of requests"
            for index in range(batch.records):
                mark = Mark(self.name, batch.first + index)
                self.ledgers[batch.place].acknowledged(told.base_offset + index, mark)
            self.acknowledged += batch.records
