"""Transactions in a log: guards, markers, the last stable offset, aborted transactions."""

from collections.abc import Iterator
from random import Random

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Appended, Log
from barnabas.log.transactions.aborted_index import AbortedIndex
from barnabas.log.transactions.append import append_marker, require_guard
from barnabas.log.transactions.verification import VerificationGuard
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.batch import CONTROL, BatchHeader, read_header
from barnabas.wire.control_records import EndMarker, read_marker
from barnabas.wire.records import iter_batches
from tests.log.batches import NOW, SMALL, batch, new_log, read_batches, reopened, write_snapshots
from tests.simulator.disk import SimulatedDisk

P, Q = 7, 8


def send(
    log: Log,
    sequence: int,
    producer: int = P,
    *,
    epoch: int = 0,
    count: int = 1,
    guard: VerificationGuard | None = None,
    transactional: bool = True,
) -> Appended:
    data = batch(
        count, producer=producer, epoch=epoch, sequence=sequence, transactional=transactional
    )
    return log.append(data, 0, NOW, guard=guard)


def begin(
    log: Log, sequence: int = 0, producer: int = P, *, epoch: int = 0, version_2: bool = False
) -> Appended:
    guard = require_guard(log, producer, epoch, sequence, has_version_2=version_2)
    return send(log, sequence, producer, epoch=epoch, guard=guard)


def end(
    log: Log,
    producer: int = P,
    *,
    commit: bool = True,
    epoch: int = 0,
    coordinator: int = 1,
    version: int = 0,
) -> int:
    marker = EndMarker(commit, coordinator)
    offset = append_marker(log, producer, epoch, marker, version, 0, NOW).base_offset
    log.advance_high_watermark(log.end_offset)
    return offset


def code_of(call: object, *args: object, **options: object) -> Code:
    assert callable(call)
    with pytest.raises(KafkaError) as error:
        call(*args, **options)
    return error.value.code


def aborted(log: Log, start: int = 0, stop: int = 1 << 40) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in log.aborted_in(start, stop)]


def test_a_transaction_begins_only_with_a_guard(log: Log) -> None:
    assert code_of(send, log, 0) is Code.INVALID_TXN_STATE
    assert log.end_offset == 0
    begin(log)
    assert require_guard(log, P, 0, 1, has_version_2=False) is None
    send(log, 1)
    assert log.end_offset == 2


def test_a_marker_takes_the_guard_away(log: Log) -> None:
    """A Produce that was verified before the abort must not open the transaction again."""
    guard = require_guard(log, P, 0, 0, has_version_2=False)
    end(log, commit=False)
    assert code_of(send, log, 0, guard=guard) is Code.INVALID_TXN_STATE


def test_a_new_leader_has_no_guards(log: Log) -> None:
    guard = require_guard(log, P, 0, 0, has_version_2=False)
    log.begin_epoch(1)
    assert code_of(send, log, 0, guard=guard) is Code.INVALID_TXN_STATE


def test_a_batch_that_overtook_another_one_is_refused(log: Log) -> None:
    guard = require_guard(log, P, 0, 0, has_version_2=False)
    assert require_guard(log, P, 0, 1, has_version_2=False) is guard
    assert code_of(send, log, 1, guard=guard) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 0, guard=guard)
    send(log, 1)


def test_a_stale_epoch_is_refused_before_a_missing_guard(log: Log) -> None:
    """Its producer may abort and go on; after INVALID_TXN_STATE it may not."""
    begin(log)
    end(log, commit=False, epoch=1)
    assert code_of(send, log, 1) is Code.INVALID_PRODUCER_EPOCH
    assert code_of(require_guard, log, P, 0, 1, has_version_2=False) is Code.INVALID_PRODUCER_EPOCH


def test_a_repeat_is_answered_also_after_the_marker(log: Log) -> None:
    begin(log)
    end(log)
    assert send(log, 0).duplicate


def test_nothing_plain_is_written_beside_an_open_transaction(log: Log) -> None:
    begin(log)
    assert code_of(send, log, 1, transactional=False) is Code.INVALID_TXN_STATE
    send(log, 0, Q, transactional=False)
    end(log)
    send(log, 1, transactional=False)


def test_a_transactional_batch_without_producer_is_refused(log: Log) -> None:
    assert code_of(log.append, batch(transactional=True), 0, NOW) is Code.INVALID_RECORD


def test_clients_write_no_markers(log: Log) -> None:
    data = batch(producer=P, sequence=0, transactional=True, control=True)
    assert code_of(log.append, data, 0, NOW) is Code.INVALID_RECORD


def test_sequences_go_on_at_the_same_epoch_and_start_again_at_the_next(log: Log) -> None:
    begin(log)
    end(log)
    begin(log, 1)
    end(log, epoch=1, version=2)
    assert code_of(begin, log, 2, epoch=1) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    begin(log, 0, epoch=1)


def test_in_version_2_an_unknown_producer_starts_with_sequence_0(log: Log) -> None:
    assert code_of(begin, log, 3, version_2=True) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    begin(log, 3, Q)


def test_markers_of_old_epochs_and_coordinators_are_refused(log: Log) -> None:
    begin(log, epoch=3)
    assert code_of(end, log, epoch=2) is Code.INVALID_PRODUCER_EPOCH
    assert code_of(end, log, epoch=3, version=2) is Code.INVALID_PRODUCER_EPOCH
    end(log, epoch=4, coordinator=5, version=2)
    end(log, epoch=4, coordinator=5, version=2)  # the answer to the first was lost
    assert code_of(end, log, epoch=4, coordinator=4) is Code.TRANSACTION_COORDINATOR_FENCED
    begin(log, epoch=4)
    assert code_of(end, log, epoch=4, coordinator=5, version=2) is Code.INVALID_PRODUCER_EPOCH


def test_readers_of_committed_records_stop_at_the_first_open_transaction(log: Log) -> None:
    log.append(batch(), 0, NOW)
    begin(log)
    begin(log, producer=Q)
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == 1
    append_marker(log, P, 0, EndMarker(False, 1), 0, 0, NOW)
    assert log.last_stable_offset == 1, "the marker is not committed yet"
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == 2
    end(log, Q)
    assert log.last_stable_offset == log.end_offset


def test_the_start_of_the_log_may_pass_an_open_transaction(log: Log) -> None:
    begin(log)
    send(log, 1)
    log.advance_high_watermark(2)
    log.delete_before(2)
    assert log.last_stable_offset == 2
    end(log, commit=False)
    assert log.last_stable_offset == log.end_offset


def test_aborted_transactions_are_found_by_the_records_they_have(log: Log) -> None:
    begin(log)
    begin(log, producer=Q)
    end(log, commit=False)  # at 2
    end(log, Q)
    begin(log, 1)  # at 4
    end(log, commit=False)
    assert aborted(log) == [(P, 0), (P, 4)]
    assert aborted(log, 3) == [(P, 4)]
    assert aborted(log, 0, 4) == [(P, 0)]
    assert aborted(log, 6) == []


def test_a_marker_that_ends_nothing_leaves_no_trace_for_readers(log: Log) -> None:
    end(log, commit=False)
    assert aborted(log) == []
    assert log.last_stable_offset == log.end_offset == 1


def test_a_full_disk_at_the_index_stops_the_log(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else aborted records would be read as committed ones."""
    begin(log)
    monkeypatch.setattr(AbortedIndex, "append", _fails)
    assert code_of(end, log, commit=False) is Code.KAFKA_STORAGE_ERROR
    assert code_of(log.append, batch(), 0, NOW) is Code.KAFKA_STORAGE_ERROR


def _fails(*_: object) -> None:
    raise OSError(28, "no space")


# Restarts, replicas, truncations


class Writer:
    """Transactions at random, over many segments."""

    def __init__(self, log: Log, rng: Random) -> None:
        self.log = log
        self.rng = rng
        self.sequences: dict[int, int] = {}

    def step(self) -> None:
        log, rng = self.log, self.rng
        producer = rng.randrange(5)
        state = log.producers.entries.get(producer)
        is_open = state is not None and state.transaction_start >= 0
        chance = rng.random()
        if chance < 0.2:
            log.append(batch(rng.randint(1, 3)), 0, NOW)
        elif chance < 0.75 or not is_open:
            sequence = self.sequences.get(producer, 0)
            count = rng.randint(1, 3)
            guard = require_guard(log, producer, 0, sequence, has_version_2=False)
            send(log, sequence, producer, count=count, guard=guard)
            self.sequences[producer] = sequence + count
        else:
            append_marker(log, producer, 0, EndMarker(rng.random() < 0.5, 1), 0, 0, NOW)
        if rng.random() < 0.5:
            log.advance_high_watermark(rng.randint(log.high_watermark, log.end_offset))
        if rng.random() < 0.3:
            write_snapshots(log)


def expected_aborted(log: Log, start: int, stop: int) -> set[tuple[int, int]]:
    """By a walk over the whole log."""
    running: dict[int, int] = {}
    found = set()
    for header, data in stored(log):
        if header.attributes & CONTROL:
            first = running.pop(header.producer_id, None)
            marker = read_marker(data, header)
            assert marker is not None
            if first is None or marker.commit:
                continue
            if header.base_offset >= start and first < stop:
                found.add((header.producer_id, first))
        elif header.attributes & 0x10:
            running.setdefault(header.producer_id, header.base_offset)
    return found


def stored(log: Log) -> Iterator[tuple[BatchHeader, memoryview]]:
    for each in log.segments:
        data = each.file().read(0, each.size)
        yield from iter_batches(data)


def same_transactions(log: Log, other: Log) -> None:
    assert log.producers.entries == other.producers.entries
    for offset in range(log.start_offset, log.end_offset + 1, 3):
        assert aborted(log, offset, offset + 9) == aborted(other, offset, offset + 9)
    for each in (log, other):
        each.high_watermark = log.end_offset
    assert log.last_stable_offset == other.last_stable_offset


@pytest.mark.parametrize("seed", range(15))
def test_a_search_over_segments_finds_what_a_walk_over_the_log_finds(seed: int) -> None:
    rng = Random(seed)
    log = new_log(SimulatedDisk(), SMALL)[1]
    writer = Writer(log, rng)
    for _ in range(150):
        writer.step()
    assert len(log.segments) > 3
    for _ in range(60):
        start = rng.randrange(log.end_offset)
        stop = rng.randint(start, log.end_offset)
        # What an open transaction has is undecided: nobody may read it, so nobody asks.
        found = set(aborted(log, start, stop))
        assert found == expected_aborted(log, start, stop)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("way", ["closed", "killed", "crashed"])
def test_a_restart_finds_the_transactions_of_the_records_it_finds(seed: int, way: str) -> None:
    rng = Random(seed)
    disk = SimulatedDisk()
    directory, log = new_log(disk, SMALL)
    log.flush()
    writer = Writer(log, rng)
    for _ in range(rng.randint(20, 150)):
        writer.step()
        if rng.random() < 0.05:
            log.flush()
            directory.checkpoint()
    if way == "closed":
        directory.close()
    after = disk
    if way != "closed":
        after = disk.kill() if way == "killed" else disk.crash(rng)
    found = reopened(after, SMALL)
    if way != "crashed":
        assert found.end_offset == log.end_offset
    again = new_log(SimulatedDisk(), SMALL)[1]
    fetch_all(found, again)
    same_transactions(found, again)
    assert set(aborted(found)) == expected_aborted(found, 0, 1 << 40)


@pytest.mark.parametrize("seed", range(15))
def test_a_follower_has_the_same_transactions(seed: int) -> None:
    rng = Random(seed)
    log = new_log(SimulatedDisk(), SMALL)[1]
    follower = new_log(SimulatedDisk(), SMALL)[1]
    writer = Writer(log, rng)
    for _ in range(150):
        writer.step()
        if rng.random() < 0.2:
            fetch_all(log, follower)
    fetch_all(log, follower)
    same_transactions(log, follower)


def fetch_all(log: Log, follower: Log) -> None:
    while follower.end_offset < log.end_offset:
        found = log.read(follower.end_offset, 4000, log.end_offset).file_slice
        assert found is not None
        follower.append_fetched(found.file.read(found.position, found.length), NOW)


@pytest.mark.parametrize("seed", range(15))
def test_a_truncated_log_has_the_transactions_of_what_is_left(seed: int) -> None:
    rng = Random(seed)
    log = new_log(SimulatedDisk(), SMALL)[1]
    writer = Writer(log, rng)
    for _ in range(150):
        writer.step()
    base_offsets = [header.base_offset for header, _ in read_batches_of(log)]
    log.truncate_to(rng.choice(base_offsets))
    again = new_log(SimulatedDisk(), SMALL)[1]
    fetch_all(log, again)
    same_transactions(log, again)
    assert set(aborted(log)) == expected_aborted(log, 0, 1 << 40)


def read_batches_of(log: Log) -> list[tuple[BatchHeader, memoryview]]:
    return [(read_header(data), data) for _, data in stored(log)]


def test_a_follower_that_nobody_reads_from_forgets_decided_transactions() -> None:
    log = new_log(SimulatedDisk(), LogConfig())[1]
    for number in range(1_500):
        begin(log, number)
        append_marker(log, P, 0, EndMarker(True, 1), 0, 0, NOW)
        log.advance_high_watermark(log.end_offset)
    assert log.producers.transactions is not None
    assert log.producers.transactions.undecided < 1_100
    assert len(list(read_batches(log))) == 3_000
