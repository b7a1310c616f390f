"""A sync that did not succeed is remembered, and its data written again by the next process."""

from random import Random

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Log
from barnabas.log.sync_mark import FILE_NAME
from tests.log.batches import (
    DATA,
    NOW,
    PARTITION,
    batch,
    new_log,
    offsets,
    open_directory,
    reopened,
    write_snapshots,
)
from tests.simulator.disk import SimulatedDisk

CONFIG = LogConfig(segment_bytes=2000, segment_index_bytes=4096, index_interval_bytes=200)
MARK = f"{DATA}/{PARTITION}/{FILE_NAME}"
POWER_LOSSES = range(20)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(batch(1, size=120), 0, NOW)


def fail_to_sync(disk: SimulatedDisk, log: Log, path: str) -> None:
    disk.fail_sync(path)
    with pytest.raises(OSError, match="sync failed"):
        log.flush()


def flushed_after_restart(disk: SimulatedDisk) -> Log:
    """A process was killed; the next one opens the log, and believes that it syncs it."""
    directory = open_directory(disk, CONFIG)
    log = directory.logs[PARTITION]
    assert log.flush() == log.end_offset
    directory.checkpoint()
    return log


@pytest.mark.parametrize("sealed", [False, True])
def test_records_that_a_sync_failed_to_write_are_durable_when_the_next_process_says_so(
    sealed: bool,
) -> None:
    """The kernel considers them written after the failure: a sync alone would not write them."""
    disk = SimulatedDisk()
    log = new_log(disk, CONFIG)[1]
    append(log, 3)
    log.flush()
    append(log, 20)
    fail_to_sync(disk, log, log.segments[0 if sealed else -1].path)
    disk = disk.kill()
    log = flushed_after_restart(disk)
    before = offsets(log)
    assert before == list(range(23))
    for seed in POWER_LOSSES:
        assert offsets(reopened(disk.kill().crash(Random(seed)), CONFIG)) == before


def test_a_sync_that_fails_in_two_processes_one_after_the_other_loses_nothing() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, CONFIG)[1]
    append(log, 5)
    for _ in range(2):
        fail_to_sync(disk, log, log.segments[-1].path)
        disk = disk.kill()
        log = reopened(disk, CONFIG)
    disk = disk.kill()
    assert flushed_after_restart(disk).end_offset == 5
    for seed in POWER_LOSSES:
        assert reopened(disk.kill().crash(Random(seed)), CONFIG).end_offset == 5


def test_a_kill_of_the_process_after_it_has_written_again_keeps_the_data_on_its_way() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, CONFIG)[1]
    append(log, 5)
    fail_to_sync(disk, log, log.segments[-1].path)
    disk = disk.kill()
    reopened(disk, CONFIG)
    disk = disk.kill()
    assert flushed_after_restart(disk).end_offset == 5
    for seed in POWER_LOSSES:
        assert reopened(disk.kill().crash(Random(seed)), CONFIG).end_offset == 5


def test_a_sync_that_fails_while_a_torn_end_is_cut_off_is_remembered() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, CONFIG)[1]
    append(log, 5)
    path = log.active.path
    disk = disk.kill()
    disk.flip(path, disk.size(path) - 1)
    disk.fail_sync(path)
    with pytest.raises(OSError, match="sync failed"):
        reopened(disk, CONFIG)
    disk = disk.kill()
    assert flushed_after_restart(disk).end_offset == 4
    for seed in POWER_LOSSES:
        assert reopened(disk.kill().crash(Random(seed)), CONFIG).end_offset == 4


def test_a_sync_that_fails_after_a_truncation_is_remembered() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, CONFIG)[1]
    append(log, 5)
    disk.fail_sync(log.active.path)
    with pytest.raises(OSError, match="sync failed"):
        log.truncate_to(4)
    disk = disk.kill()
    assert flushed_after_restart(disk).end_offset == 4
    for seed in POWER_LOSSES:
        assert reopened(disk.kill().crash(Random(seed)), CONFIG).end_offset == 4


def test_a_sync_of_sealed_segments_does_not_confirm_the_active_one_that_found_no_room() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    append(log, 5)
    log.flush()
    append(log, 1)
    log.roll(NOW)
    append(log, 5)
    disk.full = True
    work = log.pending_flush()
    assert work is not None
    with pytest.raises(OSError, match="no space"):
        work.run()
    log.sync_found_no_room()
    disk.full = False
    write_snapshots(log)
    sealed = log.pending_flush(sealed_only=True)
    assert sealed is not None
    sealed.run()
    log.flushed(sealed)
    assert disk.read_file(MARK) == b"1"
    log.flush()
    assert disk.read_file(MARK) == b"0"
    directory.checkpoint()
    for seed in POWER_LOSSES:
        assert reopened(disk.kill().crash(Random(seed)), CONFIG).end_offset == 11


def test_a_kill_between_syncs_does_not_make_the_next_process_write_anything_again() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, CONFIG)[1]
    append(log, 3)
    log.flush()
    append(log, 3)
    path = log.active.path
    disk = disk.kill()
    written_ms = disk.modified_ms(path)
    disk.wall_ms = written_ms + 1
    assert flushed_after_restart(disk).end_offset == 6
    assert disk.modified_ms(path) == written_ms


def test_a_clean_stop_leaves_no_mark() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, CONFIG)
    append(log, 3)
    log.flush()
    assert disk.read_file(MARK) == b"0"
    directory.close()
    assert not disk.exists(MARK)
