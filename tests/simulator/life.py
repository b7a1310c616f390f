"""A model of a log's whole life, in plain lists and dictionaries, and random histories of both.

The model knows batches and their records, nothing of files. A history does the same to the log and
to the model (append, roll, flush, delete, expire, compact, stop, kill, lose power, also in the
middle of a compaction; in some histories syncs fail), and compares them after every step. All from
a seed. A history may have transactions (life_transactions.py).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from barnabas.log.compaction.cleanable import job_for, look
from barnabas.log.compaction.compaction import Compaction
from barnabas.log.compaction.key_loops import LOAD_MAX, SLOT_BYTES
from barnabas.log.config import DAY_MS, LogConfig
from barnabas.log.log import Log
from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL, check_crc
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, decode_batch, encode_batch
from tests.log.batches import NOW, PARTITION, TOPIC_ID, open_directory
from tests.log.compacting import SECRET, Kept, compact, stored, swap
from tests.simulator.disk import Died, SimulatedDisk
from tests.simulator.life_transactions import (
    MARKER_KEYS,
    Transactions,
    committed,
    stored_batches,
)

TEN_YEARS_MS = 3653 * DAY_MS
PRODUCERS = 3


@dataclass(frozen=True)
class Batch:
    """What a reader gets of one batch."""

    base: int
    records: tuple[Kept, ...]
    horizon: int | None = None
    producer: int = -1  # of a transaction


def compacted_model(
    batches: list[Batch],
    aborted: set[int],
    dirty_from: int,
    dirty_to: int,
    keys_max: int,
    now: int,
    retention: int,
) -> tuple[list[Batch], int]:
    """The batches after a pass, and how far it came. `aborted`: the base offsets of batches."""
    latest: dict[bytes, int] = {}
    end = dirty_from
    full = False
    for batch in batches:
        if batch.base >= dirty_to or not batch.records or batch.records[-1].offset < dirty_from:
            continue
        if batch.base in aborted:
            continue
        for record in batch.records:
            assert record.key is not None
            if record.offset < dirty_from:
                continue
            if record.key not in latest and len(latest) >= keys_max:
                full = True
                break
            latest[record.key] = record.offset
        if full:
            end = max(dirty_from, batch.base)
            break
    if not full:
        end = dirty_to
    result = []
    for batch in batches:
        if batch.base >= end:
            result.append(batch)
            continue
        if batch.base in aborted:
            continue
        over = batch.horizon is not None and batch.horizon <= now
        kept = tuple(
            record
            for record in batch.records
            if record.key is not None
            and record.offset >= latest.get(record.key, -1)
            and (record.value is not None or not over)
        )
        horizon = batch.horizon
        if horizon is None and any(record.value is None for record in kept):
            horizon = now + retention
        if kept:
            result.append(Batch(batch.base, kept, horizon, batch.producer))
    return result, end


def seen(log: Log) -> list[Batch]:
    """The log as its readers see it."""
    batches = []
    for header, data in stored(log):
        check_crc(data, header)
        records = tuple(
            Kept(record.offset, record.key, record.value, record.timestamp)
            for record in decode_batch(data)
        )
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        if header.attributes & CONTROL:
            continue
        producer = header.producer_id if header.attributes & TRANSACTIONAL else -1
        if records and records[-1].offset >= log.start_offset:
            batches.append(Batch(header.base_offset, records, horizon, producer))
    return batches


class Life:
    """One log, and the model of it."""

    def __init__(self, seed: int, *, failing_syncs: bool, transactions: bool) -> None:
        self.rng = rng = Random(seed)
        self.failing_syncs = failing_syncs
        self.config = LogConfig(
            segment_bytes=rng.choice((500, 1000, 3000)),
            segment_index_bytes=rng.choice((96, 4096)),
            index_interval_bytes=rng.choice((0, 200)),
            segment_ms=rng.choice((50, 10**12)),
            timestamp_type=rng.choice(("create", "create", "append")),
            timestamp_after_max_ms=1 << 62,
            deletes=rng.random() < 0.5,
            retention_ms=rng.choice((-1, 200, 2000)),
            retention_bytes=rng.choice((-1, -1, 1500)),
            compacted=True,
            delete_retention_ms=rng.choice((0, 100, 1000)),
            min_compaction_lag_ms=rng.choice((0, 0, 100)),
        )
        self.keys_bytes = rng.choice((8, 16, 1000)) * SLOT_BYTES
        self.now = NOW
        self.disk = SimulatedDisk()
        self.disk.wall_ms = self.now
        self.directory = open_directory(self.disk, self.config)
        self.log = self.directory.create(PARTITION, TOPIC_ID, self.config)
        self.log.flush()
        self.directory.checkpoint()
        self.batches: list[Batch] = []
        self.sent: list[tuple[int, int, int, int]] = []  # producer, sequence, count, base offset
        self.producers = list(range(PRODUCERS))
        self.durable = 0
        self.transactions = Transactions(rng) if transactions else None

    def step(self) -> None:
        choices: tuple[tuple[Callable[[], None], int], ...] = (
            (self.append, 50),
            (self.roll, 6),
            (self.flush, 12),
            (self.write_snapshots_late, 5),
            (self.compact, 12),
            (self.compact_and_die, 6),
            (self.compact_and_truncate, 4),
            (self.delete, 3),
            (self.expire, 5),
            (self.remove_files, 4),
            (self.find, 8),
            (self.pass_time, 6),
            (self.kill, 4),
            (self.stop, 3),
            (self.lose_power, 4),
            (self.fail_to_sync, 8 if self.failing_syncs else 0),
        )
        if self.transactions is not None:
            choices += (
                (self.append_transactional, 40),
                (self.end_transaction, 35),
                (self.flush, 20),
                (self.roll, 10),
                (self.compact, 20),
                (self.compact_again_and_again, 8),
                (self.compact_and_truncate, 6),
                (self.pass_time, 6),
            )
        actions = [action for action, _ in choices]
        self.rng.choices(actions, [weight for _, weight in choices])[0]()

    def some_records(self) -> list[Record]:
        rng = self.rng
        count = rng.randint(1, 4)
        times = [self.now + rng.randint(-20, 20) for _ in range(count)]
        return [
            Record(
                number,
                times[number],
                self.some_key(),
                None if rng.random() < 0.2 else bytes([rng.randrange(256)]) * rng.choice((1, 90)),
            )
            for number in range(count)
        ]

    def some_key(self) -> bytes:
        if self.transactions is not None and self.rng.random() < 0.2:
            return self.rng.choice(MARKER_KEYS)
        return b"key%d" % self.rng.randrange(9)

    def append(self) -> None:
        rng = self.rng
        records = self.some_records()
        count = len(records)
        producer = rng.choice((-1, *self.producers))
        sequence = self.next_sequence(producer)
        codec = rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP))
        if rng.random() < 0.05:
            records[-1] = replace_key(records[-1], None)
        data = memoryview(
            encode_batch(
                records,
                codec=codec,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence if producer >= 0 else -1,
            )
        )
        if records[-1].key is None:
            with pytest.raises(InvalidRequest) as refused:
                self.log.append(data, 0, self.now)
            assert refused.value.code is Code.INVALID_RECORD
            return
        again = bytearray(data)
        appended = self.log.append(data, 0, self.now)
        assert not appended.duplicate
        base = appended.base_offset
        self.add_batch(base, records)
        if producer >= 0:
            self.sent.append((producer, sequence, count, base))
            assert self.log.append(memoryview(again), 0, self.now).base_offset == base
        if rng.random() < 0.9:
            self.log.advance_high_watermark(self.log.end_offset)

    def add_batch(self, base: int, records: list[Record], producer: int = -1) -> None:
        """To the model."""
        stamped = self.config.timestamp_type == "append"
        kept = tuple(
            Kept(base + r.offset, r.key, r.value, self.now if stamped else r.timestamp)
            for r in records
        )
        self.batches.append(Batch(base, kept, producer=producer))

    def append_transactional(self) -> None:
        assert self.transactions is not None
        records = self.some_records()
        codec = self.rng.choice((Codec.NONE, Codec.NONE, Codec.ZSTD))
        producer, base = self.transactions.write(self.log, records, self.now, codec)
        self.add_batch(base, records, producer)
        if self.rng.random() < 0.9:
            self.log.advance_high_watermark(self.log.end_offset)

    def end_transaction(self) -> None:
        assert self.transactions is not None
        self.transactions.end(self.log, self.now)
        if self.rng.random() < 0.9:
            self.log.advance_high_watermark(self.log.end_offset)

    def next_sequence(self, producer: int) -> int:
        for sent, sequence, count, _ in reversed(self.sent):
            if sent == producer:
                return sequence + count
        return 0

    def roll(self) -> None:
        if self.log.segments[-1].size:
            self.log.roll(self.now)

    def flush(self) -> None:
        self.durable = self.log.flush()
        self.directory.checkpoint()

    def write_snapshots_late(self) -> None:
        """What the thread of the directory writes arrives after other steps of the log."""
        work = self.log.pending_snapshots()
        if work is None:
            return
        log, rng = self.log, self.rng
        before = rng.random() < 0.5
        if before:
            work.run()
        steps = (self.append, self.roll, self.compact, self.delete, self.compact_and_truncate)
        for _ in range(rng.randint(0, 3)):
            rng.choice(steps)()
            self.check()
        if not before:
            work.run()
        log.snapshots_written(work)

    def delete(self) -> None:
        self.log.delete_before(self.rng.randint(self.log.start_offset, self.log.high_watermark))
        self.flush()

    def expire(self) -> None:
        before = self.log.start_offset
        old = [(each.base_offset, each.largest_timestamp()) for each in self.log.segments]
        self.log.apply_retention(self.now)
        start = self.log.start_offset
        assert start == before or self.config.deletes
        if self.config.retention_bytes < 0:
            for base, largest in old:
                if before <= base < start and 0 <= largest <= self.now:
                    assert self.now - largest > self.config.retention_ms >= 0
        self.flush()

    def remove_files(self) -> None:
        self.directory.take_removals(0)
        for path in self.directory.take_removals(1 << 60):
            self.disk.remove(path)

    def pass_time(self) -> None:
        jump = self.rng.choice((10, 100, 100, 1000, 5000, TEN_YEARS_MS, -TEN_YEARS_MS))
        self.now = self.disk.wall_ms = max(1, self.now + jump)

    def _expected_pass(self) -> tuple[list[Batch], int]:
        """The model after the pass that `look` would lead to."""
        found = look(self.log, self.now)
        span = max(0, found.dirty_to - found.dirty_from)
        slots = max(8, min(self.keys_bytes // SLOT_BYTES, int(span / LOAD_MAX) + 1))
        aborted: set[int] = set()
        if self.transactions is not None:
            stable = self.transactions.stable_offset(self.log)
            assert found.dirty_to <= max(stable, found.dirty_from)
            aborted = {
                batch.base
                for batch in self.batches
                if self.transactions.is_aborted(batch.producer, batch.base)
            }
        return compacted_model(
            self.batches,
            aborted,
            found.dirty_from,
            found.dirty_to,
            int(slots * LOAD_MAX),
            self.now,
            self.config.delete_retention_ms,
        )

    def compact(self) -> None:
        expected, end = self._expected_pass()
        work = self._compact()
        if work is not None:
            # The model knows of no batch without records, nor where one ends that lost its last.
            between = range(work.end_offset, end)
            assert work.end_offset <= end
            assert self.log.cleaned_to == work.end_offset
            assert not [b for b in self.batches for r in b.records if r.offset in between]
            self.batches = expected
            self.check_committed(everywhere=True)

    def _compact(self) -> Compaction | None:
        return compact(self.disk, self.directory, self.log, self.now, keys_bytes=self.keys_bytes)

    def compact_again_and_again(self) -> None:
        """Until markers go: all is decided, and time passes."""
        assert self.transactions is not None
        for _ in range(self.rng.randint(2, 5)):
            for _ in range(self.rng.randint(0, 3)):
                self.append_transactional()
            while self.transactions.starts and self.rng.random() < 0.9:
                self.end_transaction()
            self.append()
            self.log.advance_high_watermark(self.log.end_offset)
            self.roll()
            self.flush()
            self.compact()
            self.check()
            self.now = self.disk.wall_ms = self.now + self.rng.choice((0, 50, 1001))

    def compact_and_die(self) -> None:
        """Hazard 28: each segment is as before, or as after."""
        expected, _ = self._expected_pass()
        before = {batch.base: batch for batch in self.batches}
        start = self.log.start_offset
        after = {b.base: b for b in expected if b.records[-1].offset >= start}
        self.disk.stop_at = self.disk.steps + self.rng.randint(0, 60)
        with suppress(Died):
            self._compact()
        self.disk.stop_at = -1
        lost = self.rng.random() < 0.6
        self._reopen(self.disk.crash(self.rng) if lost else self.disk.kill(), lost=lost)
        left = seen(self.log)
        end = self.log.end_offset
        there = {batch.base: batch for batch in left}
        for base, batch in before.items():
            if base < end and batch.records[-1].offset >= self.log.start_offset:
                assert there.get(base) in (batch, after.get(base))
        assert not there.keys() - before.keys()
        self.batches = left

    def compact_and_truncate(self) -> None:
        """An unclean truncation while the worker reads; other records get the same base offsets."""
        found = look(self.log, self.now)
        if not found.dirty_bytes:
            return
        self.directory.checkpoint()
        work = Compaction(
            self.disk, job_for(found, self.now, self.keys_bytes), SECRET, lambda size: None
        )
        work.map_keys()
        parts = [work.clean(group) for group in work.groups()]
        bases = [each.base_offset for each in self.log.segments if each.size]
        offset = self.rng.choice(bases)
        if self.transactions is not None and self.rng.random() < 0.5:
            offset = self.rng.randrange(self.log.end_offset)
        self.log.truncate_to(max(offset, self.log.start_offset))
        self.flush()
        end = self.log.end_offset
        self.batches = [batch for batch in self.batches if batch.base < end]
        self.sent.clear()
        self.producers = [each + PRODUCERS for each in self.producers]
        if self.transactions is not None:
            self.transactions.found(self.log)
            self.transactions.new_producers()
        while len(self.log.segments) <= len(bases) and self.log.end_offset <= bases[-1]:
            self.roll()
            self.append()
        self.log.advance_high_watermark(self.log.end_offset)
        self.flush()
        for cleaned in parts:
            swap(self.disk, self.directory, self.log, cleaned)

    def kill(self) -> None:
        end = self.log.end_offset
        self._reopen(self.disk.kill(), lost=False)
        assert self.log.end_offset == end

    def stop(self) -> None:
        end, start = self.log.end_offset, self.log.start_offset
        self.directory.close()
        self._reopen(self.disk, lost=False)
        assert self.directory.clean
        # An index that a power loss tore is found out when it is first used.
        assert {found.action for found in self.directory.findings} <= {"indexes rebuilt"}
        assert (self.log.start_offset, self.log.end_offset) == (start, end)
        self.durable = end

    def fail_to_sync(self) -> None:
        """Hazard 24: the broker ends, and the next process finds in memory what is not on the
        disk."""
        names = self.disk.list(self.log.path)
        self.disk.fail_sync(f"{self.log.path}/{self.rng.choice(names)}")
        try:
            self.flush()
        except OSError:
            self.kill()
        else:
            self.disk.heal()  # that file was not due

    def lose_power(self) -> None:
        """Hazards 25 and 26: unsynced sectors and names go either way."""
        self._reopen(self.disk.crash(self.rng), lost=True)

    def _reopen(self, disk: SimulatedDisk, *, lost: bool) -> None:
        start = self.log.start_offset
        self.disk = disk
        self.directory = open_directory(disk, self.config)
        self.log = self.directory.logs[PARTITION]
        end = self.log.end_offset
        assert end >= self.durable
        assert self.log.start_offset <= start
        self.log.advance_high_watermark(end)
        if lost:
            self.batches = [batch for batch in self.batches if batch.base < end]
            self.sent = [each for each in self.sent if each[3] < end]
        if self.transactions is not None:
            self.transactions.found(self.log)

    def find(self) -> None:
        """ListOffsets, exact to the record, whatever was compacted."""
        log, rng = self.log, self.rng
        records = [
            record
            for batch in self.batches
            for record in batch.records
            if record.offset >= log.start_offset
        ]
        if self.transactions is not None:  # a marker is a record with a time too
            records += (
                Kept(header.base_offset, None, None, header.max_timestamp)
                for header, _ in stored_batches(log)
                if header.attributes & CONTROL and header.base_offset >= log.start_offset
            )
            records.sort()
        wanted = self.now + rng.randint(-200, 50)
        if records and rng.random() < 0.5:
            wanted = rng.choice(records).timestamp
        expected = next((r for r in records if r.timestamp >= wanted), None)
        found = log.find_time(wanted)
        assert (found and found[:2]) == (expected and (expected.offset, expected.timestamp))
        largest = max(records, key=lambda record: (record.timestamp, -record.offset), default=None)
        found = log.find_max_timestamp()
        assert (found and found[:2]) == (largest and (largest.offset, largest.timestamp))

    def check(self) -> None:
        log = self.log
        start = log.start_offset
        expected = [batch for batch in self.batches if batch.records[-1].offset >= start]
        assert seen(log) == expected
        self.batches = expected
        assert start <= log.high_watermark <= log.end_offset
        assert log.size == sum(segment.size for segment in log.segments)
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases))
        self._check_producers()
        if self.transactions is not None:
            self.transactions.check_state(log)
            self.transactions.check_markers(log, self.now)
            self.check_committed()

    def check_committed(self, *, everywhere: bool = False) -> None:
        """Readers of committed records get all of them, and nothing else, wherever they begin."""
        if self.transactions is None:
            return
        log, rng = self.log, self.rng
        stable = self.transactions.stable_offset(log)
        decided = [
            record
            for batch in self.batches
            if batch.producer < 0 or self.transactions.decision(batch.producer, batch.base)
            for record in batch.records
            if log.start_offset <= record.offset < stable
        ]
        for offset in range(log.start_offset, log.end_offset) if everywhere else ():
            found, to = committed(log, offset, rng.choice((1, 300, 1 << 20)), fetches_max=1)
            assert found == [r for r in decided if offset <= r.offset < to], (offset, to)
        offset = rng.randint(log.start_offset, log.end_offset)
        found, to = committed(log, offset, rng.choice((1, 300, 1 << 20)))
        assert found == [record for record in decided if record.offset >= offset], offset
        assert to >= min(stable, max(offset, decided[-1].offset if decided else 0))

    def _check_producers(self) -> None:
        """The last batch of each producer is known, or none of its batches is left."""
        for number, producer in enumerate(self.producers):
            last = next((each for each in reversed(self.sent) if each[0] == producer), None)
            if last is None:
                continue
            if last[3] < self.log.start_offset:
                self.producers[number] += PRODUCERS  # what is known of it now is no matter
                continue
            state = self.log.producers.entries[producer]
            assert state.last_sequence == last[1] + last[2] - 1


def replace_key(record: Record, key: bytes | None) -> Record:
    return Record(record.offset, record.timestamp, key, record.value, record.headers)


def live(seed: int, steps: int, *, failing_syncs: bool = False, transactions: bool = False) -> Life:
    life = Life(seed, failing_syncs=failing_syncs, transactions=transactions)
    for _ in range(steps):
        life.step()
        life.check()
    return life
