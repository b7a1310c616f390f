"""Clients of many partitions that go on through whatever happens to the brokers.

In: servers and partitions. Out: how many records were acknowledged, or Violation: a client was told
of an error that it cannot retry, a record is lost, doubled or out of order.
Always: librdkafka's producer and consumer and our own, each of all partitions, by their usual
pace of metadata: a test that asks for ten thousand partitions every second measures itself.
"""

import threading
from collections.abc import Iterable, Mapping
from random import Random

from tests.cluster.checker import History, Place
from tests.cluster.load import (
    CONSUMERS,
    PRODUCERS,
    OwnLoad,
    OwnReader,
    RdkafkaLoad,
    RdkafkaReader,
    Violation,
    Worker,
)
from tests.waiting import until

MORE_RECORDS = 200
WAIT_S = 120.0
SHOWN_MAX = 20
_RDKAFKA: Mapping[str, object] = {
    "statistics.interval.ms": 0,
    "topic.metadata.refresh.interval.ms": 300_000,
    "socket.timeout.ms": 30_000,
}
_OWN: Mapping[str, object] = {"request.timeout.ms": "30000"}


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
        self._readers: list[Worker] = [
            RdkafkaReader(CONSUMERS[0], servers, *shared),
            OwnReader(CONSUMERS[1], servers, *shared),
        ]
        for worker, more in zip(self._workers, (_RDKAFKA, _OWN, _RDKAFKA, _OWN), strict=True):
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

        until(further, lambda: f"{self._taken()} records, {self._read()} read", WAIT_S)

    def finish(self) -> int:
        """The number of records, once every one of them has been read by both consumers."""
        for worker in self._producers:
            worker.finish()

        def all_read() -> bool:
            self._check()
            with self._lock:
                return all(
                    each.read_to(consumer) >= each.acknowledged_to
                    for each in self._history.partitions.values()
                    for consumer in CONSUMERS
                )

        until(all_read, lambda: f"{self._taken()} records, {self._read()} read", WAIT_S)
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
