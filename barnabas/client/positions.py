"""Where reading stands in each partition: makes fetch requests, takes their answers apart.

In: starting offsets, answers. Out: requests, messages in the order of their offsets.
Always: a message is given once; records before the position, control records and, when only
committed ones are wanted, those of aborted transactions are left out; nothing at or past a
partition's stop is given.
Not here: whom to ask, and when (consumer.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from barnabas.client.errors import partition_error
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from barnabas.wire.records import Headers, decode_batch, iter_batches

_CONTROL_TYPE_ABORT = 0
_NEVER = 2**63


class Message(NamedTuple):
    """A record, and where it was found."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    batch: BatchHeader
    marks: "Marks"


class Marks(NamedTuple):
    """Of a partition, when it was read."""

    log_start: int
    last_stable: int
    high_watermark: int


class Limits(NamedTuple):
    """How much to ask for at a time."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024


class Positions:
    """Positions of the partitions that are read."""

    def __init__(
        self,
        starts: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int] | None = None,
        *,
        committed_only: bool = True,
    ) -> None:
        self._next = dict(starts)
        self._stops = dict(stops or {})
        self._committed_only = committed_only

    def __getitem__(self, at: TopicPartition) -> int:
        return self._next[at]

    def reading(self) -> list[TopicPartition]:
        """Partitions that have not reached their stop."""
        return [at for at, offset in self._next.items() if offset < self._stops.get(at, _NEVER)]

    def seek(self, at: TopicPartition, offset: int) -> None:
        self._next[at] = offset

    def request(
        self,
        partitions: Iterable[TopicPartition],
        topic_ids: Mapping[str, UUID],
        epochs: Mapping[TopicPartition, int],
        limits: Limits,
    ) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for at in partitions:
            wanted = FetchPartition(
                partition=at.partition,
                current_leader_epoch=epochs.get(at, -1),
                fetch_offset=self._next[at],
                partition_max_bytes=limits.partition_bytes_max,
            )
            topics.setdefault(at.topic, []).append(wanted)
        return FetchRequest(
            max_wait_ms=limits.wait_ms_max,
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            isolation_level=1 if self._committed_only else 0,
            topics=[
                FetchTopic(topic=name, topic_id=topic_ids[name], partitions=wanted)
                for name, wanted in topics.items()
            ],
        )

    def digest(self, at: TopicPartition, answer: PartitionData) -> Iterator[Message]:
        """The messages of an answer; the position moves as they are given."""
        if problem := self.problem(at, answer):
            raise problem
        marks = Marks(answer.log_start_offset, answer.last_stable_offset, answer.high_watermark)
        aborted = _Aborted(answer if self._committed_only else None)
        stop = self._stops.get(at, _NEVER)
        records = answer.records or b""
        assert not hasattr(records, "position")  # a slice of a file is only ever sent
        for header, batch in iter_batches(records):
            after = header.base_offset + header.last_offset_delta + 1
            if after <= self._next[at]:
                continue
            if header.attributes & CONTROL:
                aborted.ended(header, batch)
            elif not aborted.covers(header):
                first = self._next[at]
                for record in decode_batch(batch):
                    if record.offset < first:
                        continue
                    if record.offset >= stop:
                        break
                    self._next[at] = record.offset + 1
                    yield Message(
                        at.topic,
                        at.partition,
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        record.headers,
                        header,
                        marks,
                    )
            self._next[at] = after

    def problem(self, at: TopicPartition, answer: PartitionData) -> KafkaError | None:
        if not answer.error_code:
            return None
        return partition_error(answer.error_code, about=f"{at}, offset {self._next[at]}")


class _Aborted:
    """Which batches belong to transactions that were aborted."""

    def __init__(self, answer: PartitionData | None) -> None:
        listed = (answer.aborted_transactions or []) if answer else []
        self._coming = sorted((t.first_offset, t.producer_id) for t in listed)
        self._open: dict[int, None] = {}

    def covers(self, header: BatchHeader) -> bool:
        while self._coming and self._coming[0][0] <= header.base_offset + header.last_offset_delta:
            self._open[self._coming.pop(0)[1]] = None
        return bool(header.attributes & TRANSACTIONAL) and header.producer_id in self._open

    def ended(self, header: BatchHeader, batch: memoryview) -> None:
        for marker in decode_batch(batch):
            if marker.key is not None and int.from_bytes(marker.key[2:4]) == _CONTROL_TYPE_ABORT:
                self._open.pop(header.producer_id, None)
