"""A load on the brokers of a rig that notes what was acknowledged.

In: the brokers' addresses. Out: acknowledged records, by partition and offset.
"""

import threading
from contextlib import suppress

from confluent_kafka import KafkaError, Message, Producer

TOPIC, SYNCED = "t", "synced"
PARTITIONS = 3
FILL = b"." * 2_000
PAUSE_S = 0.05  # between records to each partition: two segments a second


class Load:
    """An idempotent producer at acks=all that goes on through everything."""

    def __init__(self, servers: str) -> None:
        self.acknowledged: dict[tuple[str, int], dict[int, bytes]] = {}
        self.unplaced: dict[tuple[str, int], set[bytes]] = {}  # acknowledged without an offset
        self.failed = 0
        self._sent = 0
        self._ending = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": 120_000,
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                "linger.ms": 0,
                "batch.size": 8_000,  # less than a segment, however many wait
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 1_000,
                "error_cb": lambda _: None,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            for topic in (TOPIC, SYNCED):
                for partition in range(PARTITIONS):
                    value = b"%d " % self._sent + FILL
                    self._sent += 1
                    with suppress(BufferError):
                        self._producer.produce(
                            topic, value, partition=partition, on_delivery=self._told
                        )
            self._ending.wait(PAUSE_S)
            self._producer.poll(0)
            while len(self._producer) > 300 and not self._ending.is_set():
                self._producer.poll(0.05)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        place = message.topic() or "", message.partition() or 0
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
        self._producer.purge()
        self._producer.flush(5)
