"""Transactions in the life of a log: what was ever written, and what its readers must get.

The model keeps all transactional batches and markers, compacted or not: they say what became of
each transaction. The log is asked as a consumer asks a broker: with and without aborted records.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from barnabas.log.log import Log
from barnabas.log.transactions.append import append_marker, require_guard
from barnabas.wire.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL, BatchHeader
from barnabas.wire.compression import Codec
from barnabas.wire.control_records import EndMarker, read_marker
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.log.compacting import Kept

FIRST_ID = 1000
PRODUCERS = 4
# Of markers: a record with such a key is a record like any other.
MARKER_KEYS = (b"\x00\x00\x00\x00", b"\x00\x00\x00\x01")


@dataclass(frozen=True)
class Event:
    """A transactional batch, or a marker."""

    offset: int
    producer: int
    epoch: int
    next_sequence: int  # of the producer, at its epoch
    marker: EndMarker | None = None


class Transactions:
    """All of one log."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.events: list[Event] = []
        self.producers = [FIRST_ID + number for number in range(PRODUCERS)]
        self.coordinator_epoch = 0
        self.markers: dict[int, int | None] = {}  # those seen last, and their delete horizons
        self.starts: dict[int, int] = {}  # by producer: where its open transaction begins
        self.ended: list[tuple[int, int]] = []  # where transactions began, and their markers

    # What was written

    def last_of(self, producer: int) -> Event | None:
        return next((each for each in reversed(self.events) if each.producer == producer), None)

    def has_version_2(self, producer: int) -> bool:
        return producer % 2 == 1

    def place(self, producer: int) -> tuple[int, int]:
        """The epoch and the sequence that a producer goes on with."""
        last = self.last_of(producer)
        return (0, 0) if last is None else (last.epoch, last.next_sequence)

    def decision(self, producer: int, offset: int) -> bool | None:
        """Whether the transaction of a batch was committed; None: it is open."""
        for event in self.events:
            if event.producer == producer and event.offset > offset and event.marker is not None:
                return event.marker.commit
        return None

    def is_aborted(self, producer: int, offset: int) -> bool:
        return producer >= 0 and self.decision(producer, offset) is False

    def cut(self, end: int) -> None:
        self.events = [event for event in self.events if event.offset < end]
        self.markers = {offset: each for offset, each in self.markers.items() if offset < end}

    def found(self, log: Log) -> None:
        """The log is another one: opened again, or truncated. What it has open was never ended.

        It may begin with a later batch: the first ones were deleted, or compacted before a
        truncation took the marker. If none is left, it need not be open.
        """
        self.cut(log.end_offset)
        stored = {header.base_offset for header, _ in stored_batches(log)}
        running: dict[int, list[int]] = {}
        for event in self.events:
            if event.marker is not None:
                running.pop(event.producer, None)
            else:
                running.setdefault(event.producer, []).append(event.offset)
        states = log.producers.describe()
        self.starts = {
            state.producer_id: state.transaction_start
            for state in states
            if state.transaction_start >= 0
        }
        assert self.starts.keys() <= running.keys(), "open, and nobody will end it"
        for producer, offsets in running.items():
            left = next((offset for offset in offsets if offset in stored), None)
            start = self.starts.get(producer)
            if start is None:
                assert left is None, (producer, left)
            else:
                assert start in offsets, (producer, start)
                assert left is None or start <= left, (producer, start)
        self.ended.clear()

    def new_producers(self) -> None:
        """What the log knows about the others may be too old."""
        for producer in tuple(self.producers):
            self.replace(producer)

    def replace(self, producer: int) -> None:
        """What the log knows about it does not matter any more."""
        self.producers[self.producers.index(producer)] += PRODUCERS

    # Writing

    def write(self, log: Log, records: list[Record], now: int, codec: Codec) -> tuple[int, int]:
        """A batch of one of the producers; the producer and the base offset."""
        producer = self.rng.choice(self.producers)
        epoch, sequence = self.place(producer)
        guard = require_guard(
            log, producer, epoch, sequence, has_version_2=self.has_version_2(producer)
        )
        data = encode_batch(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        again = bytearray(data)
        appended = log.append(memoryview(data), 0, now, guard=guard)
        assert not appended.duplicate
        base = appended.base_offset
        assert log.append(memoryview(again), 0, now).base_offset == base
        self.events.append(Event(base, producer, epoch, sequence + len(records)))
        self.starts.setdefault(producer, base)
        return producer, base

    def end(self, log: Log, now: int) -> None:
        """A marker: for an open transaction, or one that was lost, or repeated, or ends nothing."""
        rng, running = self.rng, list(self.starts)
        producer = rng.choice(running * 3 + self.producers)
        epoch, sequence = self.place(producer)
        version = 2 if self.has_version_2(producer) else 0
        bumps = version == 2 and producer in running
        if rng.random() < 0.1:  # fenced, or timed out
            bumps = True
        if bumps:
            epoch, sequence = epoch + 1, 0
        if rng.random() < 0.2:
            self.coordinator_epoch += 1
        marker = EndMarker(rng.random() < 0.5, self.coordinator_epoch)
        appended = append_marker(log, producer, epoch, marker, version, 0, now)
        self.events.append(Event(appended.base_offset, producer, epoch, sequence, marker))
        if producer in self.starts:
            self.ended.append((self.starts.pop(producer), appended.base_offset))

    # What readers get

    def stable_offset(self, log: Log) -> int:
        """The first offset that is not decided for good."""
        undecided = [first for first, marker in self.ended if marker >= log.high_watermark]
        stable = min([log.high_watermark, *self.starts.values(), *undecided])
        return max(stable, log.start_offset)

    def check_state(self, log: Log) -> None:
        """What the log knows of producers and transactions is what was written to it."""
        for state in log.producers.describe():
            assert state.transaction_start == self.starts.get(state.producer_id, -1), state
        assert self.starts.keys() <= log.producers.entries.keys()
        assert log.last_stable_offset == self.stable_offset(log)
        for producer in tuple(self.producers):
            last = self.last_of(producer)
            if last is None:
                continue
            known = log.producers.entries.get(producer)
            if known is None:
                assert last.offset < log.start_offset, (producer, last)
                self.replace(producer)
                continue
            assert known.epoch == last.epoch, (known, last)
            assert known.last_sequence + 1 == last.next_sequence, (known, last)
            ended = (e.marker for e in reversed(self.events) if e.producer == producer)
            marker = next((each for each in ended if each is not None), None)
            if marker is not None:
                assert known.coordinator_epoch == marker.coordinator_epoch, (known, marker)

    def check_markers(self, log: Log, now: int) -> None:
        """A marker goes only behind its delete horizon, and after all of its transaction."""
        found: dict[int, int | None] = {}
        running: set[int] = set()
        written = {event.offset: event for event in self.events}
        for header, batch in stored_batches(log):
            if not header.attributes & TRANSACTIONAL:
                continue
            event = written[header.base_offset]
            assert (event.producer, event.epoch) == (header.producer_id, header.producer_epoch)
            if not header.attributes & CONTROL:
                running.add(header.producer_id)
                continue
            assert read_marker(batch, header) == event.marker
            running.discard(header.producer_id)
            horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
            assert horizon is None or self.markers.get(event.offset, horizon) in (None, horizon)
            found[event.offset] = horizon
        assert running <= self.starts.keys(), "a marker is gone before its batches"
        first = log.segments[0].base_offset
        for offset, horizon in self.markers.items():
            if offset not in found and offset >= first:
                assert horizon is not None, offset
                assert horizon <= now, offset
        self.markers = found


def stored_batches(log: Log) -> Iterator[tuple[BatchHeader, memoryview]]:
    """All of the files, also batches without records."""
    for segment in log.segments:
        yield from iter_batches(segment.file().read(0, segment.size))


def committed(
    log: Log, offset: int, bytes_max: int, fetches_max: int = 1 << 30
) -> tuple[list[Kept], int]:
    """What a reader of committed records gets from `offset` on, fetch after fetch, and the offset
    that it has come to."""
    found: list[Kept] = []
    position, stable = offset, log.last_stable_offset
    for _ in range(fetches_max):
        if position >= stable:
            break
        part = log.read(position, bytes_max, stable)
        if part.file_slice is None:
            break
        piece = part.file_slice
        aborted = sorted(
            (each.first_offset, each.producer_id)
            for each in log.aborted_in(position, part.next_offset)
        )
        skipped: set[int] = set()
        for header, batch in iter_batches(piece.file.read(piece.position, piece.length)):
            while aborted and aborted[0][0] <= header.last_offset:
                skipped.add(aborted.pop(0)[1])
            if header.attributes & CONTROL:
                marker = read_marker(batch, header)
                if marker is not None and not marker.commit:
                    skipped.discard(header.producer_id)
            elif not header.attributes & TRANSACTIONAL or header.producer_id not in skipped:
                found += (
                    Kept(record.offset, record.key, record.value, record.timestamp)
                    for record in decode_batch(batch)
                    if record.offset >= offset
                )
        position = part.next_offset
    return found, position
