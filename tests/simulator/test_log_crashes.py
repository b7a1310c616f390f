"""Seeded histories of one log with kills and power losses, against a plain list.

SEEDS in the environment sets how many histories run, FIRST_SEED where they begin; a failure
names its seed.
"""

import os
from contextlib import suppress
from random import Random
from unittest.mock import patch

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.directory.directory import LogDirectory
from barnabas.log.log import Log
from barnabas.log.producers.snapshots import TEMPORARY_SUFFIX, ProducerSnapshots, SnapshotWrite
from barnabas.log.producers.state import ProducerStates
from barnabas.model.errors import Code, Failed, InvalidRequest
from barnabas.wire.batch import check_crc, read_header
from tests.log.batches import NOW, PARTITION, TOPIC_ID, batch, open_directory, read_batches
from tests.share import IN_FULL
from tests.simulator.disk import Died, SimulatedDisk

SEEDS = int(os.environ.get("SEEDS", "40" if IN_FULL else "10"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
STEPS = 120
FOUND_FROM, FOUND_WITHIN = 60, 200  # from where the planted bug is found soon


class History:
    """One log and everything that was ever acknowledged to it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.config = LogConfig(
            segment_bytes=rng.choice((2000, 5000, 30_000)),
            segment_index_bytes=rng.choice((96, 4096)),
            index_interval_bytes=rng.choice((0, 200, 1000)),
            segment_ms=rng.choice((50, 10**9)),
        )
        self.disk = SimulatedDisk()
        self.directory = open_directory(self.disk, self.config)
        self.log = self.directory.create(PARTITION, TOPIC_ID, self.config)
        self.written: list[bytes] = []  # every batch of the log, as stored
        self.sequences = dict.fromkeys(range(3), 0)
        self.in_flight: dict[int, list[tuple[int, int, int]]] = {p: [] for p in range(3)}
        self.epoch = 0
        self.durable_epoch = -1
        self.time = NOW
        self.durable = 0  # everything below survives a power loss
        self.start = 0

    def step(self) -> None:
        choices = (
            (self.append, 60),
            (self.repeat, 8),
            (self.fail_a_roll, 3),
            (self.flush, 5),
            (self.flush_sealed, 5),
            (self.write_snapshots, 6),
            (self.checkpoint, 5),
            (self.delete, 2),
            (self.truncate, 2),
            (self.read, 6),
            (self.new_leader, 3),
            (self.kill, 3),
            (self.stop, 2),
            (self.lose_power, 2),
        )
        actions = [action for action, _ in choices]
        self.rng.choices(actions, [weight for _, weight in choices])[0]()

    def append(self) -> None:
        rng = self.rng
        self.time += rng.randint(-3, 9)
        count = rng.randint(1, 4)
        producer = rng.choice((-1, 0, 1, 2))
        sequence = self.sequences[producer] if producer >= 0 else -1
        data = batch(
            count,
            size=rng.choice((1, 30, 400)),
            time=self.time,
            producer=producer,
            sequence=sequence,
        )
        appended = self.log.append(data, self.epoch, self.time)
        assert not appended.duplicate
        self.written.append(bytes(data))
        if producer >= 0:
            self.in_flight[producer].append((sequence, count, appended.base_offset))
            del self.in_flight[producer][:-5]
            self.sequences[producer] += count

    def repeat(self) -> None:
        """Hazard 17: written, not acknowledged, sent again; each of the last five."""
        for producer, flights in self.in_flight.items():
            for sequence, count, base_offset in flights:
                data = batch(count, producer=producer, sequence=sequence)
                again = self.log.append(data, self.epoch, self.time)
                assert again.duplicate
                assert again.base_offset == base_offset
            if flights:
                gap = batch(producer=producer, sequence=self.sequences[producer] + 1)
                with pytest.raises(InvalidRequest) as refused:
                    self.log.append(gap, self.epoch, self.time)
                assert refused.value.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER

    def fail_a_roll(self) -> None:
        """No space, or no file descriptor, for one of the files that a roll touches."""
        log, rng = self.log, self.rng
        base = rng.choice((log.end_offset, log.end_offset, log.segments[-1].base_offset))
        path = f"{log.path}/{base:020d}{rng.choice(('.index', '.timeindex'))}"
        if rng.random() < 0.5:
            self.disk.fail_open(path)
        else:
            self.disk.fail_write(path, rng.choice((0, 5)))
        data = batch(1, size=self.config.segment_bytes - 200, time=self.time)
        end = log.end_offset
        with suppress(Failed):
            log.append(data, self.epoch, self.time)
        if log.end_offset > end:
            self.written.append(bytes(data))
        self.disk.heal()

    def flush(self) -> None:
        self.durable = self.log.flush()
        assert self.durable == self.log.end_offset
        self.directory.checkpoint()

    def flush_sealed(self) -> None:
        work = self.log.pending_flush(sealed_only=True)
        if work is not None:
            for _ in range(self.rng.randint(0, 3)):
                self.append()
            work.run()
            self.durable = max(self.durable, self.log.flushed(work))

    def write_snapshots(self) -> None:
        """Off the event loop: anything may happen to the log meanwhile, or to the disk."""
        work = self.log.pending_snapshots()
        if work is None:
            return
        log, rng = self.log, self.rng
        before = rng.random() < 0.5
        if before:
            work.run()
        for _ in range(rng.randint(0, 3)):
            rng.choice((self.append, self.append, self.truncate, self.delete, self.flush_data))()
        if not before:
            self.disk.stop_at = self.disk.steps + rng.randint(0, 12) if rng.random() < 0.3 else -1
            try:
                work.run()
            except Died:
                self.disk.stop_at = -1
                self.reopen_after_crash()
                return
            self.disk.stop_at = -1
        log.snapshots_written(work)

    def flush_data(self) -> None:
        """Without the snapshots that are pending."""
        work = self.log.pending_flush()
        if work is not None:
            work.run()
            self.durable = self.log.flushed(work)
            self.directory.checkpoint()

    def checkpoint(self) -> None:
        self.directory.checkpoint()

    def new_leader(self) -> None:
        self.epoch += 1
        durable = self.rng.random() < 0.5
        self.log.begin_epoch(self.epoch, durable=durable)
        if durable:
            self.durable_epoch = self.epoch

    def read(self) -> None:
        if self.log.end_offset > self.log.start_offset:
            offset = self.rng.randrange(self.log.start_offset, self.log.end_offset)
            limit = self.rng.randint(offset, self.log.end_offset)
            list(
                read_batches(
                    self.log, start=offset, limit=limit, bytes_max=self.rng.randint(0, 2000)
                )
            )

    def delete(self) -> None:
        self.log.advance_high_watermark(self.log.end_offset)
        self.start = self.rng.randint(self.log.start_offset, self.log.high_watermark)
        self.log.delete_before(self.start)
        self.log.flush()
        self.directory.checkpoint()
        self.durable = self.log.recovery_point

    def truncate(self) -> None:
        self.log.truncate_to(self.rng.randint(self.log.start_offset, self.log.end_offset))
        self.directory.checkpoint()
        self.durable = min(self.durable, self.log.end_offset)
        self.durable_epoch = -1
        self.forget(self.log.end_offset)

    def kill(self) -> None:
        """The process ends; the page cache stays."""
        before = self.log
        self.reopen(self.disk.kill())
        assert not self.directory.clean
        assert self.log.end_offset == before.end_offset
        assert [f for f in self.directory.findings if "cut" in f.action] == []

    def stop(self) -> None:
        before = self.log
        self.directory.close()
        self.disk.bytes_read = 0
        self.reopen(self.disk)
        assert self.directory.clean
        assert self.directory.findings == []
        assert self.log.end_offset == before.end_offset == self.log.recovery_point
        assert self.log.producers.entries == before.producers.entries
        if before.end_offset:  # a log that never had a record is not written at a stop
            assert self.log.epochs.entries == before.epochs.entries
        self.durable = self.log.recovery_point

    def reopen_after_crash(self) -> None:
        self.rng.choice((self.kill, self.lose_power))()

    def lose_power(self) -> None:
        """Hazards 25 and 26: unsynced sectors and names go either way."""
        self.reopen(self.disk.crash(self.rng))
        assert self.log.end_offset >= self.durable
        self.forget(self.log.end_offset)

    def reopen(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.directory = open_directory(disk, self.config)
        if PARTITION not in self.directory.logs:
            assert self.durable == 0
            self.directory.create(PARTITION, TOPIC_ID, self.config)
            self.durable_epoch = -1
        self.log = self.directory.logs[PARTITION]
        assert self.log.epochs.latest >= self.durable_epoch
        if self.log.topic_id != TOPIC_ID:
            assert self.durable == 0
            self.log.write_topic_id(TOPIC_ID)

    def forget(self, end: int) -> None:
        """The log is shorter now: so is the list, and so is what producers know."""
        kept = []
        for stored in self.written:
            header = read_header(stored)
            if header.last_offset < end:
                kept.append(stored)
            else:
                assert header.base_offset >= end
        self.written = kept
        expected = replayed(kept)
        for producer in self.sequences:
            state = expected.entries.get(producer)
            self.sequences[producer] = state.last_sequence + 1 if state else 0
            self.in_flight[producer] = [
                (b.base_sequence, b.last_sequence - b.base_sequence + 1, b.base_offset)
                for b in (state.batches if state else ())
            ]

    def check(self) -> None:
        """The log is the list: no gap, no torn batch, nothing else."""
        log = self.log
        stored = [data for _, data in read_batches(log)]
        expected = [
            data for data in self.written if read_header(data).last_offset >= log.start_offset
        ]
        assert stored == expected
        for data in stored:
            check_crc(data, read_header(data))
        assert log.start_offset <= log.high_watermark <= log.end_offset
        assert log.size == sum(segment.size for segment in log.segments)
        assert log.producers.entries == replayed(self.written).entries
        check_times(log, stored)


def replayed(written: list[bytes]) -> ProducerStates:
    states = ProducerStates()
    for stored in written:
        states.replay(read_header(stored))
    return states


def check_times(log: Log, stored: list[bytes]) -> None:
    times = [read_header(data).max_timestamp for data in stored]
    found = log.find_max_timestamp()
    if log.start_offset == log.segments[0].base_offset:
        assert (found.timestamp if found else -1) == max(times, default=-1)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_a_log_is_always_a_clean_prefix_of_what_was_acknowledged(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
        history.check()


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = History(3), History(3)
    for _ in range(STEPS):
        first.step()
        second.step()
    assert first.written == second.written
    assert isinstance(first.directory, LogDirectory)


@pytest.mark.full
def test_a_snapshot_that_outlives_a_truncation_is_found() -> None:
    """With the bug planted: a late snapshot gets its name whatever happened to the log."""
    real = ProducerSnapshots.publish

    def publish(self: ProducerSnapshots, work: SnapshotWrite) -> bool:
        for offset, path, captured in work.snapshots:
            if self._disk.exists(path + TEMPORARY_SUFFIX):
                self.pending[offset] = captured
        return real(self, work)

    with patch.object(ProducerSnapshots, "publish", publish):
        for seed in range(FOUND_FROM, FOUND_FROM + FOUND_WITHIN):
            history = History(seed)
            try:
                for _ in range(STEPS):
                    history.step()
                    history.check()
            except AssertionError:
                return
    pytest.fail(f"{FOUND_WITHIN} histories did not show it")
