"""Reads back what a producer wrote, with a client that is not ours."""

from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.waiting import WAIT_S


class Found(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def read_back(bootstrap_servers: str, topic: str, partitions: int = 1) -> list[Found]:
    """Everything, in the order of partitions and offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
        found: list[Found] = []
        ended = 0
        while ended < partitions:
            message: Any = consumer.poll(WAIT_S)
            assert message is not None, f"{len(found)} records, then silence"
            if message.error() is not None:
                ended += 1  # the end of a partition is all that is reported so
                continue
            found.append(
                Found(
                    message.partition(),
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    message.headers() or [],
                )
            )
        return sorted(found, key=lambda record: record[:2])
    finally:
        consumer.close()
