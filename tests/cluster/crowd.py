"""Clients of many partitions that go on through whatever happens to the brokers.

In: servers and partitions. Out: how many records were acknowledged, or Violation: a client was told
of an error that it cannot retry, a record is lost, doubled or out of order.
Always: librdkafka's producer and consumer and our own, at their usual pace of metadata: who asks
for ten thousand partitions every second measures himself. All of them have all partitions, but for
librdkafka's consumer, which asks for each beginning by a request of its own: it has one topic.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from random import Random

from tests.cluster.checker import History, Place
from tests.cluster.load import (
    CONSUMERS,
    PRODUCERS,
    LoadConsumer,
    OwnLoad,
    OwnReader,
    RdkafkaLoad,
    RdkafkaReader,
    Violation,
    Worker,
)
from tests.waiting import WAIT_S

MORE_RECORDS = 200
LOOK_S = 0.2
SHOWN_MAX = 20
_RDKAFKA: Mapping[str, object] = {
    "statistics.interval.ms": 0,
    "topic.metadata.refresh.interval.ms": 300_000,
    "socket.timeout.ms": 30_000,
}
_RDKAFKA_READER: Mapping[str, object] = {**_RDKAFKA, "session.timeout.ms": 45_000}
_OWN: Mapping[str, object] = {"request.timeout.ms": "30000"}
_OWN_READER: Mapping[str, object] = {**_OWN, "session.timeout.ms": "45000"}


class Crowd:
    """Two producers and two consumers, a thread each."""

    def __init__(self, servers: str, places: Iterable[Place], seed: int = 0) -> None:
        self._history = History(places, PRODUCERS)
        self._lock = threading.Lock()
        shared = (self._history, self._lock)
        self._producers: list[Worker] = [
            RdkafkaLoad(PRODUCERS[0], servers, *shared, Random(f"{seed} one")),
            OwnLoad(PRODUCERS[1], servers, *shared, Random(f"{seed} two")),
        ]
        self._readers: list[LoadConsumer] = [
            RdkafkaReader(CONSUMERS[0], servers, *shared),
            OwnReader(CONSUMERS[1], servers, *shared),
        ]
        self._readers[0].topics = self._readers[0].topics[:1]
        options = (_RDKAFKA, _OWN, _RDKAFKA_READER, _OWN_READER)
        for worker, more in zip(self._workers, options, strict=True):
            worker.more = more

    @property
    def _workers(self) -> list[Worker]:
        return [*self._producers, *self._readers]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def go_on(self) -> None:
        """Until some more records were acknowledged, and each consumer has read of them."""
        taken, read = self._taken(), self._read()

        def further() -> bool:
            self._check()
            return self._taken() >= taken + MORE_RECORDS and all(
                now > before for now, before in zip(self._read(), read, strict=True)
            )

        self._wait(further)

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > deadline:
                raise Violation(f"stuck: {self._taken()} records taken, {self._read()} read")
            time.sleep(LOOK_S)

    def finish(self) -> int:
        """The number of records, once every one of them has been read by both consumers."""
        for worker in self._producers:
            worker.finish()

        def all_read() -> bool:
            self._check()
            with self._lock:
                return all(
                    each.read_to(reader.name) >= each.acknowledged_to
                    for (topic, _), each in self._history.partitions.items()
                    for reader in self._readers
                    if topic in reader.topics
                )

        self._wait(all_read)
        for worker in self._readers:
            worker.finish()
        self._check()
        return self._taken()

    def abandon(self) -> None:
        for worker in self._workers:
            worker.finishing.set()

    def _taken(self) -> int:
        with self._lock:
            return self._history.acknowledged_count

    def _read(self) -> list[int]:
        with self._lock:
            histories = self._history.partitions.values()
            return [sum(each.read_to(who) + 1 for each in histories) for who in CONSUMERS]

    def _check(self) -> None:
        for worker in self._workers:
            worker.check()
        with self._lock:
            found = self._history.anomalies
        if found:
            shown = "\n  ".join(str(anomaly) for anomaly in found[:SHOWN_MAX])
            raise Violation(f"{len(found)} anomalies:\n  {shown}")
