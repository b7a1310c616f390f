"""One topic of a query: the offsets that it reads, and its records as Arrow.

In: conditions of the query, limits, a time in the past. Out: batches of records, and notes about
what is left out. Always: ends are fixed when the reader is made.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.config.option import nearest
from barnabas.model.ids import TopicPartition
from barnabas.sql import ranges
from barnabas.sql.ranges import Span
from barnabas.sql.statement import Condition
from barnabas.wire.messages.list_offsets import EARLIEST, LATEST

SAMPLE = 1_000
ROWS_AT_ONCE = 50_000
WINDOW = 5_000  # offsets of each partition


class DecodeBatch(Protocol):
    """Decodes the keys and values of a RecordBatch. `problem`: of the last one that could not be
    decoded."""

    problem: str

    def __call__(self, batch: Any) -> Any: ...


class QueryFailed(Exception):
    """The query cannot be run: what is wrong with it."""


class TopicReader:
    """One topic of a query: which offsets it reads, and its records as Arrow."""

    def __init__(
        self,
        name: str,
        settings: dict[str, str],
        conditions: Sequence[Condition],
        most: int,
        as_of_ms: int | None = None,
        decoded: DecodeBatch | None = None,
    ) -> None:
        self.name = name
        self._decoded = decoded
        self._settings = {"auto.offset.reset": "earliest", **settings}
        self.notes: list[str] = []
        with Admin(settings) as admin:
            topics = admin.topics().topics
            if name not in topics:
                raise QueryFailed(f"topic {name!r} does not exist{nearest(name, topics)}")
            numbers = [partition.number for partition in topics[name].partitions]
            chosen = ranges.wanted_partitions(numbers, conditions)
            if any(each.column == "key" and each.operator == "=" for each in conditions):
                self.notes.append(
                    f"reads partition {', '.join(map(str, chosen)) or 'none'} only, where producers"
                    " that hash as Java does write this key"
                )
            places = {TopicPartition(name, number): EARLIEST for number in chosen}
            firsts = admin.offsets(places) if places else {}
            # Records of open transactions are not read, and a reader would wait for them.
            committed = settings.get("isolation.level", "read_committed") == "read_committed"
            latest = dict.fromkeys(places, LATEST)
            ends = admin.offsets(latest, committed_only=committed) if places else {}
            since = ranges.since_ms(conditions)
            starts = {at: firsts[at].offset for at in places}
            if since is not None and places:
                for at, found in admin.offsets(dict.fromkeys(places, since)).items():
                    starts[at] = max(starts[at], found.offset if found.offset >= 0 else 1 << 62)
            stops = {at: ends[at].offset for at in places}
            if as_of_ms is not None and places:
                for at, found in admin.offsets(dict.fromkeys(places, as_of_ms)).items():
                    stops[at] = min(stops[at], found.offset) if found.offset >= 0 else stops[at]
        self.ends = {at.partition: stops[at] for at in places}
        spans = {
            at.partition: ranges.by_offset((starts[at], stops[at]), conditions) for at in places
        }
        self.spans = {number: span for number, span in spans.items() if span[0] < span[1]}
        self.limit_to(most)

    def limit_to(self, most: int) -> None:
        before = self.records
        self.spans = ranges.newest(self.spans, most)
        if self.records < before:
            self.notes.append(
                f"{before - self.records:,} of {before:,} records are not read: the limit is"
                f" {most:,}"
            )

    @property
    def records(self) -> int:
        return sum(stop - start for start, stop in self.spans.values())

    def sample(self) -> list[Any]:
        """The values of the newest records."""
        each = max(1, SAMPLE // max(1, len(self.spans)))
        spans = {
            number: (max(start, stop - each), stop) for number, (start, stop) in self.spans.items()
        }
        return [value for batch in self._read(spans) for value in batch.column("value").to_pylist()]

    def batches(self, *, newest_first: bool) -> Iterator[Any]:
        """Oldest first, or windows from the ends backwards: for a query that has only a limit."""
        if not newest_first:
            yield from self._read(self.spans)
            return
        left = dict(self.spans)
        while left:
            windows = {n: (max(start, stop - WINDOW), stop) for n, (start, stop) in left.items()}
            found = pa.Table.from_batches(list(self._read(windows)))
            order = [("timestamp", "descending"), ("offset", "descending")]
            yield from found.sort_by(order).to_batches()
            left = {n: (left[n][0], low) for n, (low, _) in windows.items() if low > left[n][0]}

    def follow(self) -> Iterator[Any]:
        """New records, from the ends on."""
        places = [TopicPartition(self.name, number) for number in self.ends]
        with PartitionConsumer(places, self._settings) as consumer:
            for at in places:
                consumer.seek(at, self.ends[at.partition])
            while True:
                batch = consumer.read_arrow(ROWS_AT_ONCE, 1.0, headers=True)
                if batch.num_rows:
                    yield batch if self._decoded is None else self._decoded(batch)

    def _read(self, spans: dict[int, Span]) -> Iterator[Any]:
        if not spans:
            return
        places = {TopicPartition(self.name, number): span for number, span in spans.items()}
        with PartitionConsumer(list(places), self._settings) as consumer:
            for at, (start, _) in places.items():
                consumer.seek(at, start)
            consumer.stop_at({at: stop for at, (_, stop) in places.items()})
            while not consumer.finished():
                batch = consumer.read_arrow(ROWS_AT_ONCE, 30.0, headers=True)
                yield batch if self._decoded is None else self._decoded(batch)
