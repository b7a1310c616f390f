"""Hazards 24 to 30: what disks and clocks do to logs, one named test each.

More of 25 in test_recovery.py, of 28 in test_compaction.py, of 30 in test_retention.py; all of
them mixed, from seeds, in tests/simulator.
"""

from random import Random

import pytest

from barnabas.log.config import DAY_MS, LogConfig
from barnabas.log.log import Log
from barnabas.model.errors import Code, Failed
from barnabas.wire.batch import read_header
from barnabas.wire.records import decode_batch, iter_batches
from tests.log.batches import (
    NOW,
    PARTITION,
    batch,
    new_log,
    open_directory,
    read_batches,
    reopened,
)
from tests.log.compacting import compact, compacted, contents, put
from tests.simulator.disk import SimulatedDisk

TEN_YEARS_MS = 3653 * DAY_MS
SMALL = LogConfig(segment_bytes=1000, segment_index_bytes=4096, index_interval_bytes=200)


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header, _ in read_batches(log)]


def filled(config: LogConfig = SMALL, count: int = 12) -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk()
    log = new_log(disk, config)[1]
    for number in range(count):
        log.append(batch(1, size=120, time=NOW + number), 0, NOW + number)
    log.advance_high_watermark(log.end_offset)
    return disk, log


def test_hazard_24_what_a_failed_sync_was_to_make_durable_is_never_called_so() -> None:
    """The kernel drops what it could not write: a second sync would succeed, and mean nothing."""
    disk, log = filled()
    disk.fail_sync(log.segments[-1].path)
    before = log.durable_offset
    with pytest.raises(OSError, match="simulated"):
        log.flush()
    assert log.durable_offset == before
    assert log.recovery_point == before


def test_hazard_24_a_compacted_segment_that_was_not_synced_is_not_used() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, compacted())
    for number in range(12):
        put(log, ("a", f"{number}" * 50))
    log.flush()
    before = contents(log)
    disk.fail_sync(f"{log.path}/{0:020d}.log.cleaned")
    with pytest.raises(OSError, match="simulated"):
        compact(disk, directory, log)
    assert contents(log) == before
    assert not [name for name in disk.list(log.path) if "cleaned" in name or "swap" in name]
    assert contents(reopened(disk.crash(Random(1)), log.config)) == before


def test_hazard_25_a_tail_cut_or_flipped_at_any_byte_costs_the_tail_only() -> None:
    disk, log = filled(count=4)
    whole = disk.read_file(log.segments[-1].path)
    ends = [0]
    while ends[-1] < len(whole):
        ends.append(ends[-1] + read_header(whole, ends[-1]).size)
    for position in range(0, len(whole), 7):
        for torn in (True, False):
            after = disk.kill()
            path = log.segments[-1].path
            if torn:
                after.open(path).truncate(position)
            else:
                after.flip(path, position)
            left = offsets(reopened(after, SMALL))
            untouched = sum(end <= position for end in ends) - 1
            first = log.segments[-1].base_offset
            kept = [offset for offset in left if offset >= first]
            assert kept[:untouched] == list(range(first, first + untouched))
            # A flip in a leader epoch, which no checksum covers, is no damage to the records.
            assert len(kept) in (untouched, len(ends) - 1)


@pytest.mark.parametrize("seed", range(40))
def test_hazard_26_no_name_that_was_synced_is_lost_whatever_a_crash_leaves(seed: int) -> None:
    disk, log = filled()
    log.flush()
    before = [data for _, data in read_batches(log)]
    log.roll(NOW)  # new names, not synced
    log.append(batch(1), 0, NOW)
    again = reopened(disk.crash(Random(seed)), SMALL)
    assert [data for _, data in read_batches(again)][: len(before)] == before


def test_hazard_27_a_full_disk_refuses_appends_keeps_reads_and_deletes_and_recovers() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, SMALL)
    for number in range(12):
        log.append(batch(1, size=120, time=NOW + number), 0, NOW + number)
    log.advance_high_watermark(log.end_offset)
    for after_bytes in (0, 1, 60, 61, 100):
        disk.fail_write(log.segments[-1].path, after_bytes)
        with pytest.raises(Failed) as refused:
            log.append(batch(1, size=50), 0, NOW)
        assert refused.value.code is Code.KAFKA_STORAGE_ERROR
        assert offsets(log) == list(range(12))
    log.flush()
    log.delete_before(7)
    directory.checkpoint()
    assert log.segments[0].base_offset > 0
    assert log.append(batch(1, size=50), 0, NOW).base_offset == 12
    assert offsets(reopened(disk.kill(), SMALL))[-1] == 12


def test_hazard_27_compaction_on_a_full_disk_changes_nothing() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, compacted())
    for number in range(12):
        put(log, (f"{number % 2}", f"{number}" * 50))
    log.flush()
    before = contents(log)
    for suffix in (".bases", ".log", ".index", ".timeindex"):
        disk.fail_write(f"{log.path}/{0:020d}{suffix}.cleaned", 3)
        try:
            compact(disk, directory, log)
        except OSError:
            assert contents(log) == before
            assert not [name for name in disk.list(log.path) if name.endswith(".cleaned")]
        disk.heal()
    compact(disk, directory, log)
    assert {record.key for record in contents(log)} == {b"0", b"1"}


def test_hazard_29_every_fetch_size_gives_whole_batches_and_the_first_always_comes() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, compacted(segment_bytes=2000))
    for number in range(30):
        put(log, (f"{number % 7}", "x" * (number * 9 % 200)), (f"{number % 5}", "y"))
    log.flush()
    compact(disk, directory, log)
    expected = [record.offset for record in contents(log)]
    for bytes_max in (*range(0, 400, 3), 1000, 5000):
        offset = log.start_offset
        found: list[int] = []
        while offset < log.end_offset:
            part = log.read(offset, bytes_max, log.end_offset)
            assert part.file_slice is not None
            data = part.file_slice.file.read(part.file_slice.position, part.file_slice.length)
            assert len(data) <= max(bytes_max, read_header(data).size)
            batches = list(iter_batches(data))
            assert sum(len(each) for _, each in batches) == len(data)
            found += (record.offset for _, each in batches for record in decode_batch(each))
            assert part.next_offset > offset
            offset = part.next_offset
        assert found == expected


@pytest.mark.parametrize("jump_ms", [TEN_YEARS_MS, -TEN_YEARS_MS])
@pytest.mark.parametrize("kind", ["create", "append"])
def test_hazard_30_appends_and_lookups_live_through_a_jump_of_the_clock(
    jump_ms: int, kind: str
) -> None:
    disk = SimulatedDisk()
    config = LogConfig(
        segment_bytes=1000,
        segment_index_bytes=4096,
        index_interval_bytes=200,
        segment_ms=1000,
        timestamp_type=kind,  # type: ignore[arg-type]
        timestamp_after_max_ms=1 << 62,
    )
    log = new_log(disk, config)[1]
    times = [NOW, NOW + 1, NOW + jump_ms, NOW + jump_ms + 1, NOW + 2, NOW + 3]
    for time in times:
        log.append(batch(1, size=100, time=time), 0, time)
    log.advance_high_watermark(log.end_offset)
    after = open_directory(disk.kill(), config).logs[PARTITION]
    for each in (log, after):
        for wanted in (*times, NOW - 2 * TEN_YEARS_MS, NOW + 2 * TEN_YEARS_MS):
            first = next((n for n, time in enumerate(times) if time >= wanted), None)
            found = each.find_time(wanted)
            assert (found and found.offset) == first
        largest = each.find_max_timestamp()
        assert largest is not None
        assert largest.offset == times.index(max(times))
        assert offsets(each) == list(range(6))
