"""A load on the brokers of a rig that notes what was acknowledged.

In: the brokers' addresses. Out: acknowledged records, by partition and offset.
"""

import threading
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer

TOPIC, SYNCED = "t", "synced"
PARTITIONS = 3
FILL = b"." * 2_000
PAUSE_S = 0.15  # between records to each partition: a segment every second or two
WAITING_MAX = 2  # per partition: with more than it may send, librdkafka's threads never sleep


class Load:
    """An idempotent producer at acks=all that goes on through everything."""

    def __init__(self, servers: str) -> None:
        self.acknowledged: dict[tuple[str, int], dict[int, bytes]] = {}
        self.unplaced: dict[tuple[str, int], set[bytes]] = {}  # acknowledged without an offset
        self.failed = 0
        self._sent = 0
        self._waiting: Counter[tuple[str, int]] = Counter()
        self._ending = threading.Event()
        # One each: on a shared connection, answers would wait for those of synced records.
        self._producers = {topic: _producer(servers) for topic in (TOPIC, SYNCED)}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(PAUSE_S):
            for topic, producer in self._producers.items():
                producer.poll(0)
                for partition in range(PARTITIONS):
                    if self._waiting[topic, partition] < WAITING_MAX:
                        value = b"%d " % self._sent + FILL
                        self._sent += 1
                        self._waiting[topic, partition] += 1
                        producer.produce(topic, value, partition=partition, on_delivery=self._told)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        place = message.topic() or "", message.partition() or 0
        self._waiting[place] -= 1
        if error is not None:
            self.failed += 1
            return
        offset = message.offset()
        if offset is None:  # the answer to a retry: written, and the broker no longer knows where
            self.unplaced.setdefault(place, set()).add(message.value() or b"")
        else:
            self.acknowledged.setdefault(place, {})[offset] = message.value() or b""

    def counts(self) -> dict[tuple[str, int], int]:
        return {place: len(found) for place, found in list(self.acknowledged.items())}

    def end(self) -> None:
        self._ending.set()
        self._thread.join()
        for producer in self._producers.values():
            producer.purge()
            producer.flush(5)


def _producer(servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "delivery.timeout.ms": 500_000,
            "socket.timeout.ms": 5_000,
            "request.timeout.ms": 5_000,  # a frozen leader keeps what it was sent for so long
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50,
            "linger.ms": 0,
            "batch.size": 8_000,  # less than a segment, however many wait
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 1_000,
            "error_cb": lambda _: None,
        }
    )
