"""Whole segments go from the front: too old, too many, or below the log start."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from barnabas.log.config import DAY_MS, LogConfig
from barnabas.log.directory.directory import LogDirectory
from barnabas.log.log import Log
from tests.log.batches import NOW, PARTITION, batch, new_log, open_directory, read_batches, reopened
from tests.share import IN_FULL
from tests.simulator.disk import Died, SimulatedDisk

SMALL = 700  # a segment of two batches
YEAR_MS = 365 * DAY_MS


def fill(log: Log, count: int, *, time: int = NOW, step: int = 0, size: int = 200) -> None:
    for number in range(count):
        log.append(batch(1, size=size, time=time + number * step), 0, time + number * step)
    log.advance_high_watermark(log.end_offset)


def sweep(directory: LogDirectory, log: Log, wall_ms: int) -> list[str]:
    """One check, and everything it leads to; the causes."""
    log.apply_retention(wall_ms)
    log.flush()
    directory.checkpoint()
    return [deletion.cause for deletion in directory.take_deletions()]


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header, _ in read_batches(log)]


def made(**options: Any) -> tuple[SimulatedDisk, LogDirectory, Log]:
    disk = SimulatedDisk()
    disk.wall_ms = NOW
    config = LogConfig(segment_bytes=SMALL, **options)
    return disk, *new_log(disk, config)


def test_a_segment_goes_when_its_newest_record_is_too_old() -> None:
    _, directory, log = made(retention_ms=1000)
    fill(log, 6, step=100)  # segments end at NOW + 100, + 300, + 500
    assert sweep(directory, log, NOW + 1100) == []  # not older than the limit, but as old
    causes = sweep(directory, log, NOW + 1101)
    assert causes == ["retention.ms = 1000: its largest timestamp is 1001 ms old"]
    assert log.start_offset == 2
    assert offsets(log) == [2, 3, 4, 5]


def test_the_largest_timestamp_counts_not_the_last() -> None:
    _, directory, log = made(retention_ms=1000)
    log.append(batch(1, size=200, time=NOW + 2500), 0, NOW + 2500)
    fill(log, 5)
    assert sweep(directory, log, NOW + 3000) == []


def test_the_active_segment_is_rolled_when_it_is_all_that_is_too_old() -> None:
    disk, directory, log = made(retention_ms=1000)
    fill(log, 1)
    assert len(sweep(directory, log, NOW + 2000)) == 1
    assert (log.start_offset, log.end_offset) == (1, 1)
    assert [segment.base_offset for segment in log.segments] == [1]
    assert sweep(directory, log, NOW + 4000) == []  # an empty segment stays
    fill(log, 1)
    assert offsets(log) == [1]
    assert reopened(disk.kill()).start_offset == 1


def test_the_oldest_go_while_a_log_is_too_large_and_would_not_become_too_small() -> None:
    _, directory, log = made(retention_bytes=1000, retention_ms=-1)
    fill(log, 8)
    size = log.size
    first = log.segments[0].size
    causes = sweep(directory, log, NOW)
    assert causes[0] == f"retention.bytes = 1000: the log has {size}"
    assert 1000 <= log.size < 1000 + first
    assert sweep(directory, log, NOW) == []


def test_no_limit_means_for_ever() -> None:
    _, directory, log = made(retention_bytes=-1, retention_ms=-1)
    fill(log, 8)
    assert sweep(directory, log, NOW + 100 * YEAR_MS) == []


def test_without_the_policy_delete_only_what_is_below_the_start_goes() -> None:
    _, directory, log = made(retention_bytes=0, retention_ms=0, deletes=False)
    fill(log, 6)
    log.delete_before(3)
    assert sweep(directory, log, NOW + YEAR_MS) == ["below the log start"]
    assert offsets(log) == [3, 4, 5]
    assert log.segments[0].base_offset == 2


def test_nothing_above_the_high_watermark_goes() -> None:
    _, directory, log = made(retention_ms=0)
    for _ in range(6):
        log.append(batch(1, size=200), 0, NOW)
    log.advance_high_watermark(3)
    assert len(sweep(directory, log, NOW + YEAR_MS)) == 1
    assert log.start_offset == 2


def test_limits_that_change_count_from_the_next_check_on() -> None:
    _, directory, log = made(retention_ms=-1)
    fill(log, 6)
    assert sweep(directory, log, NOW + YEAR_MS) == []
    log.config = LogConfig(segment_bytes=SMALL, retention_ms=1)
    assert len(sweep(directory, log, NOW + YEAR_MS)) == 3


def test_hazard_30_a_timestamp_from_the_future_does_not_keep_a_segment() -> None:
    """It is as old as the last write to its file."""
    disk, directory, log = made(retention_ms=1000, timestamp_after_max_ms=1 << 62)
    fill(log, 2, time=NOW + 10 * YEAR_MS)
    fill(log, 1, time=NOW)
    assert sweep(directory, log, NOW + 1000) == []
    assert sweep(directory, log, NOW + 1001)[0].endswith("the last write to it is 1001 ms old")
    assert disk.modified_ms(log.segments[-1].path) <= NOW + 1001


def test_hazard_30_segments_written_while_the_clock_was_ten_years_ahead_go_in_time() -> None:
    disk, directory, log = made(retention_ms=1000, timestamp_type="append")
    disk.wall_ms = NOW + 10 * YEAR_MS
    fill(log, 2, time=disk.wall_ms)
    disk.wall_ms = NOW
    fill(log, 1)
    assert sweep(directory, log, NOW) == []  # seen: from here on it ages
    again = open_directory(disk.kill(), log.config)  # also across a restart
    assert sweep(again, again.logs[PARTITION], NOW + 500) == []
    assert len(sweep(again, again.logs[PARTITION], NOW + 1001)) == 2


def test_hazard_30_a_clock_ten_years_behind_deletes_nothing() -> None:
    disk, directory, log = made(retention_ms=DAY_MS)
    fill(log, 4)
    disk.wall_ms = NOW - 10 * YEAR_MS
    assert sweep(directory, log, NOW - 10 * YEAR_MS) == []
    fill(log, 1, time=NOW - 10 * YEAR_MS)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert sweep(directory, log, NOW) == []


def test_records_without_a_timestamp_age_with_their_file() -> None:
    _, directory, log = made(retention_ms=1000)
    fill(log, 4, time=-1)
    assert sweep(directory, log, NOW + 1000) == []
    assert len(sweep(directory, log, NOW + 1001)) == 2


def test_a_reader_in_the_middle_of_a_deleted_segment_finishes() -> None:
    disk, directory, log = made(retention_ms=1000, file_delete_delay_ms=0)
    fill(log, 4)
    part = log.read(0, 1 << 20, log.end_offset).file_slice
    assert part is not None
    before = part.file.read(part.position, part.length)
    sweep(directory, log, NOW + 2000)
    for path in directory.take_removals(0):
        disk.remove(path)
    assert part.file.read(part.position, part.length) == before


def test_deleted_files_stay_under_another_name_for_their_delay() -> None:
    disk, directory, log = made(retention_ms=1000, file_delete_delay_ms=60_000)
    fill(log, 4)
    sweep(directory, log, NOW + 2000)
    doomed = [name for name in disk.list(log.path) if name.endswith(".deleted")]
    assert f"{0:020d}.log.deleted" in doomed
    assert directory.take_removals(5) == []
    assert directory.take_removals(60_004) == []
    due = directory.take_removals(60_005)
    assert sorted(path.rpartition("/")[2] for path in due) == doomed
    assert directory.take_removals(99_999) == []


def test_files_that_wait_for_their_end_are_removed_by_the_next_start() -> None:
    disk, directory, log = made(retention_ms=1000)
    fill(log, 4)
    sweep(directory, log, NOW + 2000)
    after = disk.kill()
    open_directory(after, log.config)
    assert not [name for name in after.list(log.path) if name.endswith(".deleted")]


def test_files_of_a_deleted_log_that_wait_never_touch_the_next_of_its_name() -> None:
    _, directory, log = made(retention_ms=1000)
    fill(log, 4)
    sweep(directory, log, NOW + 2000)
    directory.delete(PARTITION)
    assert directory.take_removals(10**9) == []


@pytest.mark.parametrize("seed", range(30 if IN_FULL else 8))
def test_a_power_loss_in_a_deletion_leaves_the_log_before_or_after_it(seed: int) -> None:
    disk, directory, log = made(retention_ms=1000)
    fill(log, 6, step=400)
    log.flush()
    directory.checkpoint()
    before = offsets(log)
    rng = Random(seed)
    disk.stop_at = disk.steps + rng.randint(0, 12)
    with suppress(Died):
        sweep(directory, log, NOW + 2100)
    again = reopened(disk.crash(rng), log.config)
    left = offsets(again)
    assert left == before[len(before) - len(left) :]
    assert 5 in left
    assert again.end_offset == 6


def test_segments_wait_until_their_records_are_in_the_table() -> None:
    _, directory, log = made(retention_ms=1000, table_offsets={}, waiting_bytes_max=1 << 30)
    fill(log, 6)
    assert sweep(directory, log, NOW + 2000) == []
    assert log.waiting_bytes == log.size
    log.config.table_offsets = {PARTITION.partition: 3}  # the second segment has 2 and 3
    causes = sweep(directory, log, NOW + 2000)
    assert causes == ["retention.ms = 1000: its largest timestamp is 2000 ms old"]
    assert (offsets(log), log.waiting_bytes) == ([2, 3, 4, 5], log.size)
    log.config.table_offsets = {PARTITION.partition: 6}
    assert len(sweep(directory, log, NOW + 2000)) == 2
    assert (offsets(log), log.waiting_bytes, log.lost_segments) == ([], 0, 0)


def test_segments_do_not_wait_for_their_table_while_the_log_is_too_large() -> None:
    _, directory, log = made(retention_ms=1000, table_offsets={0: 1}, waiting_bytes_max=0)
    fill(log, 6)
    log.config.waiting_bytes_max = log.size - 1
    (cause,) = sweep(directory, log, NOW + 2000)
    assert "lake.retention.wait.bytes" in cause
    assert "NOT in the table" in cause
    assert (offsets(log), log.lost_segments) == ([2, 3, 4, 5], 1)
    assert log.waiting_bytes == log.size
