"""Drives a broker through confluent-kafka, as a Python program does: a call for every record.

In: an address, a topic of one partition, counts. Out: seconds from the first record to the last
acknowledgement (or the last record received).
Always: what was counted as sent is checked against the partition's end offset.
The same library without Python's share is in librdkafka.py.
"""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, Producer, TopicPartition

_CONSUME_RECORDS = 10_000
_TIMEOUT_S = 60


def produce(
    servers: str, topic: str, records: int, record_bytes: int, options: Mapping[str, str]
) -> float:
    """Seconds until the last of `records` was acknowledged."""
    producer = Producer({"bootstrap.servers": servers, **options})
    value = bytes(record_bytes)
    send = producer.produce
    send(topic, value, partition=0)  # connects, and opens the way of a produce request
    producer.flush(_TIMEOUT_S)
    started = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                send(topic, value, partition=0)
                break
            except BufferError:  # more is queued than librdkafka wants
                producer.poll(0.01)
    producer.flush(_TIMEOUT_S)
    seconds = time.perf_counter() - started
    _check_end(servers, topic, records + 1)
    return seconds


def _check_end(servers: str, topic: str, expected: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_TIMEOUT_S)
    finally:
        consumer.close()
    if end != expected:
        raise RuntimeError(f"{topic}: {expected} records sent, {end} stored")


def consume(servers: str, topic: str, records: int, options: Mapping[str, str]) -> float:
    """Seconds from the first to the last of `records`."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            **options,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        received = len(consumer.consume(1, _TIMEOUT_S))
        started = time.perf_counter()
        while received < records:
            messages = consumer.consume(_CONSUME_RECORDS, _TIMEOUT_S)
            if not messages or messages[0].error() is not None:
                raise RuntimeError(f"{topic}: {received} of {records} records received")
            received += len(messages)
        return time.perf_counter() - started
    finally:
        consumer.close()
