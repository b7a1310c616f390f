"""Reads records for pages: the newest, from an offset, from a time, one; and follows a topic.

Always: a page reads at most ROWS_MAX records per look, within READ_MS_MAX; ends are fixed when the
look begins; a stream has a connection of its own and ends when its reader goes away.
"""

import time
from collections.abc import AsyncGenerator, Mapping

from barnabas.client.aio import open_cluster
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.client.producer.accumulator import murmur2
from barnabas.console.cluster_state import ConsoleCluster
from barnabas.model.ids import TopicPartition

ROWS = 50
ROWS_MAX = 2_000
READ_MS_MAX = 3_000
BYTES_PER_PARTITION = 1 << 20  # of one fetch
Span = tuple[int, int]


def key_partition(key: bytes, partitions: int) -> int:
    """Where producers write a key that hash as Java's do."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def reading_cluster(settings: Mapping[str, str]) -> ClusterClient:
    return open_cluster(
        {
            "client.id": "barnabas-console",
            "auto.offset.reset": "earliest",
            **settings,
        },
        {},
    )


async def read_spans(
    cluster: ClusterClient, spans: Mapping[TopicPartition, Span], limit: int = ROWS_MAX
) -> list[RawMessage]:
    """The records of these ranges of offsets, up to `limit`, within the time."""
    spans = {at: span for at, span in spans.items() if span[0] < span[1]}
    found: list[RawMessage] = []
    if not spans:
        return found
    deadline = time.monotonic() + READ_MS_MAX / 1000
    async with PartitionConsumer(list(spans), cluster=cluster) as consumer:
        for at, (start, _) in spans.items():
            await consumer.seek(at, start)
        consumer.stop_at({at: stop for at, (_, stop) in spans.items()})
        while len(found) < limit and not consumer.finished():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            messages = await consumer.getmany(limit - len(found), timeout=left)
            if not messages:
                break
            found += messages
    return found


async def newest(
    state: ConsoleCluster,
    cluster: ClusterClient,
    bounds: Mapping[TopicPartition, Span],
    count: int,
    before: Mapping[TopicPartition, int] | None = None,
) -> list[RawMessage]:
    """The newest records, newest first; of many partitions, some of each."""
    filled = {at: span for at, span in bounds.items() if span[0] < span[1]}
    each = count if len(filled) <= 8 else max(2, min(count, ROWS_MAX // max(1, len(filled))))
    spans = {}
    for at, (start, end) in filled.items():
        stop = end if before is None else min(end, before.get(at, end))
        spans[at] = (max(start, stop - each), stop)
    found = await read_spans(cluster, spans)
    found.sort(key=lambda message: (-message.timestamp, message.partition, -message.offset))
    return found[:count]


async def one_record(cluster: ClusterClient, at: TopicPartition, offset: int) -> RawMessage | None:
    """The record at an offset; None if it was compacted away or is not a record of a producer."""
    found = await read_spans(cluster, {at: (offset, offset + 1)}, 1)
    return found[0] if found else None


async def tail(
    settings: Mapping[str, str], starts: Mapping[TopicPartition, int]
) -> AsyncGenerator[list[RawMessage], None]:
    """New records as they come; an empty list every second without one."""
    with reading_cluster(settings) as cluster:
        async with PartitionConsumer(list(starts), cluster=cluster) as consumer:
            for at, start in starts.items():
                await consumer.seek(at, start)
            while True:
                yield await consumer.getmany(200, timeout=1.0)


async def export(
    settings: Mapping[str, str], spans: Mapping[TopicPartition, Span]
) -> AsyncGenerator[list[RawMessage], None]:
    """All records of these ranges."""
    spans = {at: span for at, span in spans.items() if span[0] < span[1]}
    if not spans:
        return
    with reading_cluster(settings) as cluster:
        async with PartitionConsumer(list(spans), cluster=cluster) as consumer:
            for at, (start, _) in spans.items():
                await consumer.seek(at, start)
            consumer.stop_at({at: stop for at, (_, stop) in spans.items()})
            while messages := await consumer.getmany(1_000):
                yield messages
