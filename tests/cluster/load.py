"""Producers and consumers that go on through every fault: librdkafka's and our own.

In: a history to write into. Out: sends, acknowledgements, polls and commits, in it.
Always: acks=all and idempotent; every record is waited for, or the run fails. A consumer is the
only member of its group, and commits what it has noted.
"""

import json
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from barnabas.client.blocking.consumer import Consumer as OwnConsumer
from barnabas.client.blocking.producer import Producer as OwnProducer
from barnabas.client.producer.batches import RecordMetadata
from barnabas.model.errors import KafkaError as OwnError
from tests.cluster.checker import History, Mark, Place
from tests.waiting import PROGRAM_S, WAIT_S

FILL = b"." * 600
UNANSWERED_MAX = 200
PAUSE_S = 0.01
COMMIT_EVERY_S = 0.2
STATISTICS_MS = 2_000
# A producer that gives up would make a hole in its numbers, which the checker takes for unknown.
PATIENCE_MS = 500_000

PRODUCERS = ("rdkafka", "own")
CONSUMERS = ("rdkafka-reader", "own-reader")


class Violation(AssertionError):
    """A promise was broken."""


def value_of(mark: Mark, fill: bytes) -> bytes:
    return f"{mark.producer} {mark.number} ".encode() + fill


def mark_of(value: bytes | None) -> Mark:
    producer, number, _ = (value or b"").split(b" ", 2)
    return Mark(producer.decode(), int(number))


class Worker(ABC):
    """A thread that goes on until it is told to finish."""

    def __init__(self, name: str, servers: str, history: History, lock: threading.Lock) -> None:
        self.name = name
        self.servers = servers
        self.history = history
        self.lock = lock  # of the history
        self.more: Mapping[str, Any] = {}  # options of its client, before it starts
        self.finishing = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        if self.failure is not None:
            raise Violation(f"{self.name}: {self.failure!r}") from self.failure

    def stack(self) -> str:
        """Where its thread is now."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        calls = traceback.extract_stack(frame) if frame is not None else []
        return f"{self.name} is in " + " > ".join(f"{c.name}:{c.lineno}" for c in calls[-4:])

    def finish(self) -> None:
        self.finishing.set()
        self._thread.join(PROGRAM_S)
        self.check()
        if self._thread.is_alive():
            raise Violation(f"{self.name} does not come to an end in {PROGRAM_S:.0f} s")

    def diagnosis(self) -> str:
        """What it says of itself, for people who look into a run that is stuck."""
        return ""

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as failure:
            self.failure = failure

    @abstractmethod
    def run(self) -> None: ...


class LoadProducer(Worker):
    """Sends to random partitions, a few at a time."""

    def __init__(
        self, name: str, servers: str, history: History, lock: threading.Lock, random: Random
    ) -> None:
        super().__init__(name, servers, history, lock)
        self.random = random
        self._unanswered = 0
        self._changed = threading.Condition()

    def run(self) -> None:
        self.open()
        places = list(self.history.partitions)
        while not self.finishing.is_set():
            for _ in range(self.random.randrange(1, 10)):
                with self._changed:
                    if self._unanswered >= UNANSWERED_MAX:
                        break
                    self._unanswered += 1
                place = self.random.choice(places)
                with self.lock:
                    mark = self.history[place].sent(self.name)
                fill = FILL[: self.random.randrange(len(FILL))]
                self.send(place, value_of(mark, fill), self._told(place, mark))
            self.serve(PAUSE_S)
            self.check()
        self.end()
        with self._changed:
            if not self._changed.wait_for(lambda: not self._unanswered, WAIT_S):
                raise Violation(f"{self._unanswered} records neither acknowledged nor refused")

    def _told(self, place: Place, mark: Mark) -> Callable[[object, int], None]:
        def told(problem: object, offset: int) -> None:
            with self._changed:
                self._unanswered -= 1
                self._changed.notify_all()
            if problem is not None:
                self.failure = self.failure or Violation(f"{mark} refused: {problem}")
                return
            with self.lock:
                self.history[place].acknowledged(mark, offset)

        return told

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def send(self, place: Place, value: bytes, told: Callable[[object, int], None]) -> None: ...

    @abstractmethod
    def serve(self, seconds: float) -> None: ...

    @abstractmethod
    def end(self) -> None: ...


class RdkafkaLoad(LoadProducer):
    def open(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": self.random.choice((0, 1, 5)),
                "batch.num.messages": self.random.choice((1, 10, 1000)),
                "compression.type": self.random.choice(("none", "lz4")),
                "message.timeout.ms": PATIENCE_MS,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "socket.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
                **self.more,
            }
        )

    def send(self, place: Place, value: bytes, told: Callable[[object, int], None]) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()  # None: the broker knew it no more
            told(error, -1 if error is not None or offset is None else offset)

        topic, partition = place
        self._producer.produce(topic, value, partition=partition, on_delivery=delivered)

    def serve(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def end(self) -> None:
        self._producer.flush(WAIT_S)


class OwnLoad(LoadProducer):
    def open(self) -> None:
        self._producer = OwnProducer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": "true",
                "acks": "all",
                "linger.ms": str(self.random.choice((0, 5))),
                "delivery.timeout.ms": str(PATIENCE_MS),
                "request.timeout.ms": "10000",
                "retry.backoff.ms": "20",
                "retry.backoff.max.ms": "100",
                **self.more,
            }
        )

    def send(self, place: Place, value: bytes, told: Callable[[object, int], None]) -> None:
        def delivered(metadata: RecordMetadata | None, problem: OwnError | None) -> None:
            told(problem, -1 if metadata is None else metadata.offset)

        topic, partition = place
        self._producer.send_nowait(topic, value, partition=partition, callback=delivered)

    def serve(self, seconds: float) -> None:
        self.finishing.wait(seconds)

    def end(self) -> None:
        self._producer.close(timeout_s=WAIT_S)


class LoadConsumer(Worker):
    """Reads everything, and commits what it has noted."""

    def __init__(self, name: str, servers: str, history: History, lock: threading.Lock) -> None:
        super().__init__(name, servers, history, lock)
        self.topics = list(dict.fromkeys(topic for topic, _ in history.partitions))
        self.assignment = 0
        self._commit_at = 0.0

    def note(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        with self.lock:
            found = self.history[topic, partition]
            found.polled(self.name, self.assignment, offset, mark_of(value))

    def due(self) -> bool:
        """To commit."""
        now = time.monotonic()
        if now < self._commit_at:
            return False
        self._commit_at = now + COMMIT_EVERY_S
        return True

    def committed(self, place: Place, offset: int) -> None:
        with self.lock:
            self.history[place].committed(self.name, offset)


class RdkafkaReader(LoadConsumer):
    _statistics = ""

    def diagnosis(self) -> str:
        """How each partition stands with librdkafka."""
        if not self._statistics:
            return ""
        topics = json.loads(self._statistics)["topics"]
        told = [
            f"{topic}-{number} {p['fetch_state']} at {p['next_offset']}, leader {p['leader']}"
            for topic, found in topics.items()
            for number, p in found["partitions"].items()
            if number != "-1"
        ]
        return f"{self.name}: {'; '.join(told)}"

    def _took(self, statistics: str) -> None:
        self._statistics = statistics

    def run(self) -> None:
        consumer = RdkafkaConsumer(
            {
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": self._took,
                "bootstrap.servers": self.servers,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 20_000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "socket.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                "fetch.wait.max.ms": 100,
                "log_level": 0,
                **self.more,
            }
        )
        consumer.subscribe(self.topics, on_assign=self._assigned)
        positions: dict[Place, int] = {}
        try:
            while not self.finishing.is_set():
                for message in consumer.consume(200, 0.05):
                    if message.error() is not None:
                        continue  # a broker is away: it says so, and goes on
                    topic, partition = message.topic() or "", message.partition() or 0
                    offset = message.offset() or 0
                    self.note(topic, partition, offset, message.value())
                    positions[topic, partition] = offset + 1
                if positions and self.due():
                    self._commit(consumer, positions)
        finally:
            consumer.close()

    def _assigned(self, consumer: RdkafkaConsumer, partitions: list[TopicPartition]) -> None:
        self.assignment += 1

    def _commit(self, consumer: RdkafkaConsumer, positions: dict[Place, int]) -> None:
        offsets = [TopicPartition(*place, offset) for place, offset in positions.items()]
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # unknown: the next one is further on
        for each in done or []:
            if each.error is None:
                self.committed((each.topic, each.partition), each.offset)


class OwnReader(LoadConsumer):
    def run(self) -> None:
        with OwnConsumer(
            *self.topics,
            {
                "bootstrap.servers": self.servers,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                "session.timeout.ms": "20000",
                "heartbeat.interval.ms": "500",
                "request.timeout.ms": "10000",
                "fetch.max.wait.ms": "100",
                **self.more,
            },
            on_assigned=self._assigned,
        ) as consumer:
            positions: dict[Place, int] = {}
            while not self.finishing.is_set():
                for message in consumer.getmany(max_records=200, timeout=0.05):
                    self.note(message.topic, message.partition, message.offset, message.value)
                    positions[message.topic, message.partition] = message.offset + 1
                if positions and self.due():
                    with suppress(OwnError):  # unknown: the next one is further on
                        consumer.commit(dict(positions))
                        for place, offset in positions.items():
                            self.committed(place, offset)

    def _assigned(self, *_: object) -> None:
        self.assignment += 1
