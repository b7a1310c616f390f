"""What was committed, to be held against every replica, reader and acknowledgement ever after.

In: logs of brokers, as they change; acknowledgements; messages read. Out: nothing, or a Violation.
Always: an offset that was below a leader's high watermark once has the same bytes for ever.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.broker.partition import Partition
from barnabas.log.log import Log
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader
from barnabas.wire.control_records import read_marker
from barnabas.wire.records import decode_batch, iter_batches

HASTY = "hasty"  # how producers are called that promise nothing


class Keyed(NamedTuple):
    """A record. `producer`: of its transaction. `ends`: a marker, which commits it or does not."""

    key: bytes | None
    value: bytes | None
    offset: int
    producer: int = -1
    ends: bool | None = None


class Violation(AssertionError):
    """A promise was broken."""


class Excused(Exception):
    """More failed at once than a cluster can bear: the world ends here, without a verdict."""


class Stored(NamedTuple):
    """A batch, as far as two copies of it must agree."""

    base_offset: int
    last_offset: int
    crc: int
    leader_epoch: int


class Ack(NamedTuple):
    producer: str
    value: bytes
    offset: int
    time_us: int


@dataclass
class Committed:
    """One partition."""

    name: TopicPartition
    compacted: bool = False
    batches: list[Stored] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)  # by offset
    keys: list[bytes | None] = field(default_factory=list)
    acks: dict[int, Ack] = field(default_factory=dict)
    from_producers: dict[str, int] = field(default_factory=dict)  # the last number of each
    positions: dict[int, int] = field(default_factory=dict)  # of batches, by base offset
    ends: dict[int, int] = field(default_factory=dict)  # how far the leader of an epoch came
    transactional: dict[int, Keyed] = field(default_factory=dict)  # by offset, also markers

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def end_before(self, epoch: int) -> int:
        """What leaders of earlier epochs committed, the next one must have."""
        return max((end for each, end in self.ends.items() if each < epoch), default=0)

    def extend(self, log: Log, to: int, who: str, epoch: int) -> list[Keyed]:
        """A leader says that its log counts up to there. Out: keys and values that are new."""
        fresh: list[Keyed] = []
        for header, data in read(log, self.end, to):
            if header.base_offset != self.end:
                raise Violation(
                    f"{self.name}: {who} committed offset {header.base_offset} behind {self.end}:"
                    " there is a gap"
                )
            self.positions[header.base_offset] = len(self.batches)
            self.batches.append(stored(header))
            for record in keyed(header, data):
                self._add(record.key, record.value, who)
                fresh.append(record)
                if record.producer >= 0:
                    self.transactional[record.offset] = record
        self.ends[epoch] = self.end
        return fresh

    def _add(self, key: bytes | None, value: bytes | None, who: str) -> None:
        offset = len(self.values)
        self.keys.append(key)
        self.values.append(value)
        ack = self.acks.get(offset)
        if ack is not None and ack.value != value:
            raise Violation(
                f"{self.name}: offset {offset} was acknowledged to {ack.producer} as {ack.value!r},"
                f" and {who} committed {value!r} there"
            )
        if key is not None or value is None:
            return
        producer, _, number = value.decode().rpartition("#")
        if not producer or producer.startswith(HASTY):
            return
        before = self.from_producers.get(producer, -1)
        if int(number) <= before:
            what = "twice" if int(number) == before else f"behind number {before}"
            raise Violation(
                f"{self.name}: record {value!r} of an idempotent producer is in the log {what},"
                f" at offset {offset} on {who}"
            )
        self.from_producers[producer] = int(number)

    def compare(self, log: Log, start: int, to: int, who: str) -> None:
        """A replica says that its log counts up to there."""
        to = min(to, self.end)
        expected = self.positions.get(start) if start >= log.start_offset else None
        for header, data in read(log, start, to):
            if header.last_offset >= to or header.base_offset < start:
                continue
            at = self.positions.get(header.base_offset)
            if expected is not None and at is not None and at != expected and not self.compacted:
                raise Violation(
                    f"{self.name}: {who} has {stored(header)} where {self.batches[expected]} is"
                    " next: there is a gap"
                )
            expected = None if at is None else at + 1
            if at is None or self.batches[at] != stored(header):
                if self.compacted and self._has_all(data):
                    continue
                there = None if at is None else self.batches[at]
                raise Violation(
                    f"{self.name}: {who} has {stored(header)} below its high watermark, where"
                    f" {there} was committed"
                )

    def _has_all(self, data: bytes) -> bool:
        """Compaction leaves records out, and changes none."""
        return all(
            self.keys[record.offset] == record.key and self.values[record.offset] == record.value
            for record in decode_batch(data)
        )

    def records(self, to: int) -> list[Keyed]:
        """Below that offset."""
        found = self.transactional
        pairs = zip(self.keys[:to], self.values[:to], strict=True)
        return [found.get(at) or Keyed(key, value, at) for at, (key, value) in enumerate(pairs)]

    def acknowledged(self, ack: Ack) -> None:
        """To a producer that waited for all in-sync replicas."""
        other = self.acks.get(ack.offset)
        if other is not None and other.value != ack.value:
            raise Violation(
                f"{self.name}: offset {ack.offset} was acknowledged to {other.producer} for"
                f" {other.value!r} and to {ack.producer} for {ack.value!r}"
            )
        self.acks[ack.offset] = ack
        if ack.offset >= len(self.values):
            raise Violation(
                f"{self.name}: {ack.value!r} was acknowledged to {ack.producer} at offset"
                f" {ack.offset}; only offsets below {len(self.values)} were ever committed"
            )
        if self.values[ack.offset] != ack.value:
            raise Violation(
                f"{self.name}: {ack.value!r} was acknowledged to {ack.producer} at offset"
                f" {ack.offset}, where {self.values[ack.offset]!r} was committed"
            )

    def was_read(self, offset: int, value: bytes | None, who: str) -> None:
        if offset >= len(self.values):
            raise Violation(
                f"{self.name}: {who} read {value!r} at offset {offset}; only offsets below"
                f" {len(self.values)} were ever committed"
            )
        if self.values[offset] != value:
            raise Violation(
                f"{self.name}: {who} read {value!r} at offset {offset}, where"
                f" {self.values[offset]!r} was committed"
            )


def stored(header: BatchHeader) -> Stored:
    return Stored(header.base_offset, header.last_offset, header.crc, header.leader_epoch)


def read(log: Log, start: int, to: int) -> list[tuple[BatchHeader, bytes]]:
    """The batches of a log from `start` on that begin below `to`."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = max(start, log.start_offset)
    while offset < to:
        part = log.read(offset, 1 << 20, to)
        if part.file_slice is None:
            break
        data = part.file_slice.file.read(part.file_slice.position, part.file_slice.length)
        found += [(header, bytes(batch)) for header, batch in iter_batches(data)]
        offset = part.next_offset
    return [each for each in found if each[0].base_offset >= start]


def records_of(log: Log, start: int, to: int) -> list[Keyed]:
    """The records of a log between two offsets."""
    return [
        record
        for header, data in read(log, start, to)
        for record in keyed(header, data)
        if start <= record.offset < to
    ]


def keyed(header: BatchHeader, data: bytes) -> list[Keyed]:
    """The records of a batch."""
    if header.attributes & CONTROL:
        marker = read_marker(data, header)
        return [
            Keyed(each.key, each.value, each.offset, header.producer_id, marker.commit)
            for each in decode_batch(data)
            if marker is not None
        ]
    producer = header.producer_id if header.attributes & TRANSACTIONAL else -1
    return [Keyed(each.key, each.value, each.offset, producer) for each in decode_batch(data)]


def records_kept(committed: Committed, partition: Partition, start: int) -> list[Keyed]:
    """From `start` on. At first what was committed before: compaction must not change it."""
    log = partition.log
    if start:
        return records_of(log, start, log.end_offset)
    alone = partition.leading is None
    end = committed.end if alone else committed.end_before(partition.leader_epoch)
    return committed.records(end) + records_of(log, end, log.end_offset)
