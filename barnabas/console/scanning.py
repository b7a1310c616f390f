"""Looks for records by key, by text in the value, or by a header; the newest offsets first.

In: ranges of offsets, and what to look for. Out: hits as they are found, and how far the scan is.
Always: a scan reads windows of offsets from the end backwards, so that it finds recent records
first; with pyarrow, records without a hit never become Python objects.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.console.reading import Span, reading_cluster
from barnabas.model.ids import TopicPartition

WINDOW = 200_000  # offsets of one partition that are read forwards at a time
HITS_MAX = 500


class Wanted(NamedTuple):
    """All that are set must match. `header`: NAME or NAME=VALUE."""

    key: bytes | None = None
    value: bytes | None = None
    header: str | None = None

    @property
    def anything(self) -> bool:
        return self.key is None and self.value is None and self.header is None


class Hit(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Scanned(NamedTuple):
    """What one step of a scan read."""

    records: int
    of: int
    hits: list[Hit]


async def scan(
    settings: Mapping[str, str], spans: Mapping[TopicPartition, Span], wanted: Wanted
) -> AsyncGenerator[Scanned, None]:
    """Until everything is read, or HITS_MAX records are found."""
    total = sum(stop - start for start, stop in spans.values())
    done = found = 0
    with reading_cluster({"fetch.max.bytes": str(32 << 20), **settings}) as cluster:
        for at, (start, stop) in sorted(spans.items()):
            while start < stop:
                low = max(start, stop - WINDOW)
                hits: list[Hit] = []
                async for part in _window(cluster, at, (low, stop), wanted):
                    hits += part
                    yield Scanned(min(total, done), total, [])
                done += stop - low
                hits.sort(key=lambda hit: -hit.offset)
                hits = hits[: HITS_MAX - found]
                found += len(hits)
                yield Scanned(done, total, hits)
                if found >= HITS_MAX:
                    return
                stop = low


async def _window(
    cluster: ClusterClient, at: TopicPartition, span: Span, wanted: Wanted
) -> AsyncGenerator[list[Hit], None]:
    headers = wanted.header is not None
    async with PartitionConsumer([at], cluster=cluster) as consumer:
        await consumer.seek(at, span[0])
        consumer.stop_at({at: span[1]})
        while not consumer.finished():
            batch = await consumer.read_arrow(50_000, 5.0, headers=headers)
            if batch.num_rows == 0 and not consumer.finished():
                raise TimeoutError(f"{at} gave no records within 5 s")
            yield _hits(batch, wanted)


def _hits(batch: Any, wanted: Wanted) -> list[Hit]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if batch.num_rows == 0:
        return []
    matched: Any = None
    if wanted.key is not None:
        matched = pc.equal(batch.column("key"), pa.scalar(wanted.key, pa.binary()))
    if wanted.value is not None:
        contains = pc.match_substring(batch.column("value"), wanted.value)
        matched = contains if matched is None else pc.and_kleene(matched, contains)
    if matched is not None:
        batch = batch.filter(pc.fill_null(matched, False))
    if wanted.header is not None and batch.num_rows:
        batch = batch.filter(pa.array(_with_header(batch.column("headers"), wanted.header)))
    return [
        Hit(
            batch.column("partition")[row].as_py(),
            batch.column("offset")[row].as_py(),
            batch.column("timestamp").cast(pa.int64())[row].as_py() // 1000,
            batch.column("key")[row].as_py(),
            batch.column("value")[row].as_py(),
        )
        for row in range(min(batch.num_rows, HITS_MAX))
    ]


def _with_header(lists: Any, wanted: str) -> list[bool]:
    name, equals, value = wanted.partition("=")
    return [
        any(
            pair["key"] == name and (not equals or pair["value"] == value.encode())
            for pair in each or ()
        )
        for each in lists.to_pylist()
    ]
