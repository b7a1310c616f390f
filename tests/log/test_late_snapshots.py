"""Producer snapshots of rolls: captured at the roll, written later, and never of lost records."""

from random import Random

import pytest

from barnabas.log.log import Log
from barnabas.log.producers.snapshots import PENDING_MAX, SUFFIX, TEMPORARY_SUFFIX, decode
from barnabas.log.producers.state import ProducerStates
from tests.log.batches import (
    DATA,
    NOW,
    PARTITION,
    SMALL,
    TOPIC_ID,
    batch,
    new_log,
    open_directory,
    read_batches,
    reopened,
    write_snapshots,
)
from tests.simulator.disk import Died, SimulatedDisk


def send(log: Log, producer: int, sequence: int) -> None:
    assert not log.append(batch(producer=producer, sequence=sequence), 0, NOW).duplicate


def snapshot_files(disk: SimulatedDisk, log: Log) -> list[str]:
    return [name for name in disk.list(log.path) if SUFFIX in name]


def stored(disk: SimulatedDisk, log: Log, offset: int) -> ProducerStates:
    return decode(disk.read_file(f"{log.path}/{offset:020d}{SUFFIX}"))


def replayed(log: Log) -> ProducerStates:
    states = ProducerStates()
    for header, _ in read_batches(log):
        states.replay(header)
    return states


def rolled(disk: SimulatedDisk) -> Log:
    """Producers 1 and 2 at offsets 0 and 1, a roll at 2."""
    log = new_log(disk, SMALL)[1]
    send(log, 1, 0)
    send(log, 2, 0)
    log.roll(NOW)
    return log


def test_a_roll_writes_no_snapshot_by_itself(disk: SimulatedDisk) -> None:
    log = rolled(disk)
    assert snapshot_files(disk, log) == []
    write_snapshots(log)
    assert snapshot_files(disk, log) == [f"{2:020d}{SUFFIX}"]
    assert log.pending_snapshots() is None


def test_a_late_snapshot_has_the_producers_as_they_were_at_the_roll(disk: SimulatedDisk) -> None:
    log = rolled(disk)
    send(log, 1, 1)
    send(log, 3, 0)
    log.producers.expire_oldest(1)
    write_snapshots(log)
    entries = stored(disk, log, 2).entries
    assert {each: state.last_sequence for each, state in entries.items()} == {1: 0, 2: 0}
    assert log.producers.entries.keys() == {1, 3}
    assert log.producers.entries[1].last_sequence == 1


def test_each_roll_in_between_has_its_own_snapshot(disk: SimulatedDisk) -> None:
    log = rolled(disk)
    work = log.pending_snapshots()
    assert work is not None
    send(log, 1, 1)
    log.roll(NOW)
    work.run()
    log.snapshots_written(work)
    write_snapshots(log)
    assert stored(disk, log, 2).entries[1].last_sequence == 0
    assert stored(disk, log, 3).entries[1].last_sequence == 1


@pytest.mark.parametrize("written_before", [True, False])
def test_a_late_snapshot_does_not_outlive_a_truncation(
    disk: SimulatedDisk, written_before: bool
) -> None:
    log = rolled(disk)
    work = log.pending_snapshots()
    assert work is not None
    if written_before:
        work.run()
    log.truncate_to(1)
    if not written_before:
        work.run()
    log.snapshots_written(work)
    assert snapshot_files(disk, log) == []
    assert log.producers.entries.keys() == {1}
    assert reopened(disk.kill(), SMALL).producers.entries.keys() == {1}


def test_a_late_snapshot_does_not_take_the_place_of_a_later_roll_at_its_offset(
    disk: SimulatedDisk,
) -> None:
    log = rolled(disk)
    work = log.pending_snapshots()
    assert work is not None
    log.truncate_to(1)
    send(log, 9, 0)
    log.roll(NOW)
    work.run()
    log.snapshots_written(work)
    assert snapshot_files(disk, log) == []
    write_snapshots(log)
    assert stored(disk, log, 2).entries.keys() == {1, 9}


def test_a_late_snapshot_does_not_outlive_a_restart_of_the_log(disk: SimulatedDisk) -> None:
    log = rolled(disk)
    work = log.pending_snapshots()
    assert work is not None
    log.restart_at(100)
    work.run()
    log.snapshots_written(work)
    assert snapshot_files(disk, log) == []
    assert not reopened(disk.kill(), SMALL).producers.entries


def test_a_truncation_above_a_pending_snapshot_uses_it(disk: SimulatedDisk) -> None:
    log = rolled(disk)
    send(log, 1, 1)
    send(log, 2, 1)
    log.truncate_to(3)
    assert log.producers.entries == replayed(log).entries
    send(log, 1, 2)
    write_snapshots(log)
    assert stored(disk, log, 2).entries[1].last_sequence == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_between_a_roll_and_its_snapshot_loses_no_producer(
    disk: SimulatedDisk, seed: int
) -> None:
    directory, log = new_log(disk, SMALL)
    send(log, 1, 0)
    send(log, 2, 0)
    log.roll(NOW)
    send(log, 1, 1)
    work = log.pending_flush()
    assert work is not None
    work.run()
    assert log.flushed(work) == 3
    assert log.recovery_point < 2
    assert not log.segments[0].durable
    directory.checkpoint()
    again = reopened(disk.crash(Random(seed)) if seed else disk.kill(), SMALL)
    assert again.end_offset == 3
    assert again.producers.entries == log.producers.entries


def test_a_crash_while_a_snapshot_is_written_leaves_no_file_behind(disk: SimulatedDisk) -> None:
    log = rolled(disk)
    log.flush()
    send(log, 1, 1)
    log.roll(NOW)
    work = log.pending_snapshots()
    assert work is not None
    disk.stop_at = disk.steps + 2
    with pytest.raises(Died):
        work.run()
    disk = disk.kill()
    again = reopened(disk, SMALL)
    assert [name for name in disk.list(log.path) if name.endswith(TEMPORARY_SUFFIX)] == []
    assert again.producers.entries == log.producers.entries


def test_a_clean_stop_writes_what_is_pending(disk: SimulatedDisk) -> None:
    directory, log = new_log(disk, SMALL)
    send(log, 1, 0)
    log.roll(NOW)
    send(log, 2, 0)
    directory.close()
    assert stored(disk, log, 1).entries.keys() == {1}
    again = open_directory(disk, SMALL)
    assert again.findings == []
    assert again.logs[PARTITION].producers.entries == log.producers.entries


def test_segments_are_deleted_only_once_the_snapshot_behind_them_is_durable(
    disk: SimulatedDisk,
) -> None:
    """Their producers would be known to nobody after a crash."""
    directory, log = new_log(disk, SMALL)
    send(log, 1, 0)
    log.flush()
    directory.close()
    directory = open_directory(disk, SMALL)
    log = directory.logs[PARTITION]
    assert log.recovery_point == 1
    log.roll(NOW)
    log.advance_high_watermark(1)
    log.delete_before(1)
    directory.checkpoint()
    assert len(log.segments) == 2
    assert reopened(disk.kill(), SMALL).producers.entries.keys() == {1}
    log.flush()
    directory.checkpoint()
    assert len(log.segments) == 1
    assert reopened(disk.kill(), SMALL).producers.entries.keys() == {1}


def test_a_pending_snapshot_moves_with_its_log(disk: SimulatedDisk) -> None:
    source_directory, source = new_log(disk, SMALL, path=DATA + "1")
    send(source, 1, 0)
    send(source, 2, 0)
    directory = open_directory(disk, SMALL, path=DATA + "2")
    copy = directory.create_copy(PARTITION, TOPIC_ID, SMALL, 0)
    for _, data in read_batches(source):
        copy.append_copied(data, NOW)
        copy.roll(NOW)
    directory.adopt(copy, source)
    source_directory.retire(source)
    copy.flush()
    assert copy.path == f"{DATA}2/{PARTITION}"
    assert stored(disk, copy, 1).entries.keys() == {1}
    assert stored(disk, copy, 2).entries.keys() == {1, 2}
    send(copy, 1, 1)
    assert stored(disk, copy, 2).entries[1].last_sequence == 0


def test_the_pending_snapshots_of_a_log_are_bounded(disk: SimulatedDisk) -> None:
    log = new_log(disk, SMALL)[1]
    for sequence in range(PENDING_MAX + 3):
        send(log, 1, sequence)
        log.roll(NOW)
    assert len(log.snapshots.pending) == PENDING_MAX
    assert len(snapshot_files(disk, log)) == 3
    log.flush()
    assert len(snapshot_files(disk, log)) == PENDING_MAX + 3
    assert log.recovery_point == log.end_offset
