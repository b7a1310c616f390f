"""Records in a test: what a test writes, and what is in a topic now."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.consumer.message import Message
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.sync import Admin, PartitionConsumer

READ_S_MAX = 120.0

Data = bytes | str | int | float | list[Any] | dict[str, Any] | None


def encoded(data: Data) -> bytes | None:
    """Bytes as they are, text as UTF-8, all else as JSON; None is null."""
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    return json.dumps(data, separators=(",", ":")).encode()


def setting_text(value: object) -> str:
    """The value of an option as its text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def headers_of(
    headers: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | None]],
) -> list[tuple[str, bytes | None]]:
    """A dict, or pairs."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def read_all(
    admin: Admin, servers: str, topic: str, partition: int | None, committed_only: bool
) -> list[Message[bytes | None, bytes | None]]:
    """The records that are in a topic now, by partition and offset; none without the topic."""
    try:
        count = len(admin.topic(topic).partitions)
    except KafkaError as error:
        if error.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise
    wanted = [TopicPartition(topic, n) for n in range(count) if partition in (None, n)]
    starts = admin.offsets(dict.fromkeys(wanted, EARLIEST))
    ends = admin.offsets(dict.fromkeys(wanted, LATEST), committed_only=committed_only)
    stops = {at: ends[at].offset for at in wanted if starts[at].offset < ends[at].offset}
    if not stops:
        return []
    found: list[Message[bytes | None, bytes | None]] = []
    isolation = "read_committed" if committed_only else "read_uncommitted"
    with PartitionConsumer(
        stops, bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        consumer.stop_at(stops)
        while not consumer.finished():
            batch = consumer.getmany(timeout=READ_S_MAX)
            if not batch and not consumer.finished():
                raise TimeoutError(f"{topic}: no record within {READ_S_MAX:.0f} s")
            found += batch
    return sorted(found, key=lambda message: (message.partition, message.offset))
