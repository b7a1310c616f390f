"""Writes a recording into a topic: the same keys, values, headers and partitions.

Always: records of control batches are left out; a topic that does not exist is created like the
recorded one. `speed` 1 keeps the distances between the timestamps, 10 is ten times as fast, None
is as fast as it goes.
"""

import time
from collections.abc import Callable

from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.producer import Producer
from barnabas.client.producer.accumulator import BufferFull
from barnabas.client.producer.batches import Delivery
from barnabas.client.recording.recording_file import RecordingHeader, batches, read_start
from barnabas.config.client import Settings
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.batch import CONTROL
from barnabas.wire.records import decode_batch

WAITING_MAX = 10_000


def replay(
    path: str,
    servers: str = "",
    *,
    topic: str | None = None,
    speed: float | None = None,
    keep_times: bool = True,
    settings: Settings | None = None,
    progress: Callable[[int], None] = lambda count: None,
) -> int:
    """Returns the number of records. `keep_times`: with their timestamps, else the time now."""
    options = {**(settings or {}), **({"bootstrap.servers": servers} if servers else {})}
    with open(path, "rb") as file:
        header = read_start(file)
        name = topic or header.topic
        count = _prepare(options, name, header)
        sent = 0
        waiting: list[Delivery] = []
        began, first = time.monotonic(), None
        with Producer(options) as producer:
            for partition, batch_header, batch in batches(file, header.partitions):
                if batch_header.attributes & CONTROL:
                    continue
                for record in decode_batch(batch):
                    if speed is not None:
                        first = record.timestamp if first is None else first
                        due = began + max(0, record.timestamp - first) / 1000 / speed
                        time.sleep(max(0.0, due - time.monotonic()))
                    waiting.append(
                        _sent(
                            producer,
                            name,
                            record.value,
                            key=record.key,
                            headers=record.headers,
                            partition=partition % count,
                            timestamp=record.timestamp if keep_times else None,
                        )
                    )
                    sent += 1
                if len(waiting) >= WAITING_MAX:
                    waiting = _settled(producer, waiting)
                    progress(sent)
            _settled(producer, waiting)
    return sent


def _prepare(options: Settings, topic: str, header: RecordingHeader) -> int:
    """The number of partitions of the topic, which is created if it does not exist."""
    with Admin(options) as admin:
        try:
            admin.create_topic(topic, partitions=header.partitions, configs=header.configs)
        except KafkaError as error:
            if error.code is not Code.TOPIC_ALREADY_EXISTS:
                raise
        return len(admin.topic(topic).partitions)


def _sent(producer: Producer, topic: str, value: bytes | None, **record: object) -> Delivery:
    while True:
        try:
            return producer.send_nowait(topic, value, **record)  # type: ignore[arg-type]
        except BufferFull:
            producer.drain()


def _settled(producer: Producer, waiting: list[Delivery]) -> list[Delivery]:
    producer.flush()
    for delivery in waiting:
        delivery.result()
    return []
