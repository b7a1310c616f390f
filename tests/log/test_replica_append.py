"""A log that is filled with what another log has, as a follower's is."""

from dataclasses import replace
from random import Random

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Log
from barnabas.log.segments.scan import headers
from barnabas.log.segments.segment import Segment
from barnabas.model.errors import Corrupt, Failed
from tests.log.batches import NOW, batch, new_log, open_directory, read_batches, reopened
from tests.simulator.disk import SimulatedDisk

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300, segment_index_bytes=4096)
COPIED = LogConfig(segment_bytes=2000, index_interval_bytes=300, copied=True)


def leader_log(batches: int = 30, config: LogConfig = SMALL, seed: int = 1) -> Log:
    random = Random(seed)
    log = new_log(SimulatedDisk(), config)[1]
    for number in range(batches):
        with_producer = {"producer": 7, "sequence": number // 2 * 3} if number % 2 else {}
        epoch = 1 + number // 10
        size = random.randint(1, 200)
        log.append(
            batch(3, size=size, time=NOW + random.randint(-50, 50), **with_producer), epoch, NOW
        )
    return log


def data_of(log: Log, start: int = 0) -> memoryview:
    return memoryview(
        bytearray(b"".join(bytes(data) for _, data in read_batches(log, start=start)))
    )


def same(one: Log, other: Log) -> bool:
    return data_of(one, one.start_offset) == data_of(other, other.start_offset)


@pytest.mark.parametrize("bytes_max", [1, 500, 5_000, 1 << 20])
def test_a_log_that_fetches_is_the_same_whatever_comes_at_once(bytes_max: int) -> None:
    leader = leader_log()
    disk = SimulatedDisk()
    follower = new_log(disk, SMALL)[1]
    while follower.end_offset < leader.end_offset:
        part = leader.read(follower.end_offset, bytes_max, leader.end_offset).file_slice
        assert part is not None
        data = part.file.read(part.position, part.length)
        assert follower.append_fetched(data, NOW) == len(data)
    assert same(leader, follower)
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.producers.entries.keys() == leader.producers.entries.keys()
    for offset in range(leader.end_offset):
        assert (
            follower.read(offset, 1, 1 << 60).next_offset
            == leader.read(offset, 1, 1 << 60).next_offset
        )
    for time in range(NOW - 60, NOW + 60, 7):
        assert follower.find_time(time) == leader.find_time(time)
    follower.close()
    assert same(leader, reopened(disk, SMALL))


def test_what_is_here_already_is_left_out() -> None:
    leader = leader_log()
    follower = new_log(SimulatedDisk(), SMALL)[1]
    follower.append_fetched(data_of(leader), NOW)
    assert follower.append_fetched(data_of(leader), NOW) == 0
    assert same(leader, follower)


def test_a_batch_that_is_damaged_is_refused_and_nothing_with_it() -> None:
    data = data_of(leader_log())
    data[len(data) // 2] ^= 0xFF
    follower = new_log(SimulatedDisk(), SMALL)[1]
    with pytest.raises(Corrupt):
        follower.append_fetched(data, NOW)
    assert (follower.end_offset, follower.size) == (0, 0)


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_batch_that_is_cut_short_is_refused(cut: int) -> None:
    data = data_of(leader_log(2))
    follower = new_log(SimulatedDisk(), SMALL)[1]
    with pytest.raises(Corrupt):
        follower.append_fetched(data[:-cut], NOW)
    assert follower.end_offset == 0


def test_batches_out_of_order_are_refused() -> None:
    leader = leader_log(6)
    parts = [bytes(data) for _, data in read_batches(leader)]
    follower = new_log(SimulatedDisk(), SMALL)[1]
    with pytest.raises(Corrupt, match="is next"):
        follower.append_fetched(parts[0] + parts[2] + parts[1], NOW)
    assert follower.end_offset == 0


def test_holes_of_compaction_come_along_and_survive_a_crash() -> None:
    leader = leader_log(20)
    parts = [bytes(data) for number, (_, data) in enumerate(read_batches(leader)) if number % 3]
    disk = SimulatedDisk()
    follower = new_log(disk, COPIED)[1]
    follower.append_fetched(b"".join(parts), NOW)
    kept = [header.base_offset for header, _ in read_batches(follower)]
    after = reopened(disk.kill(), COPIED)
    assert [header.base_offset for header, _ in read_batches(after)] == kept
    assert after.end_offset == follower.end_offset


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_a_file_that_lost_its_end_is_the_end_of_the_log(empty: bool, compacted: bool) -> None:
    """A power loss took it, and left the next file: there would be a hole in a follower's log."""
    leader = leader_log(30)
    config = replace(COPIED, compacted=compacted)
    disk = SimulatedDisk()
    directory, follower = new_log(disk, config)
    directory.checkpoint()
    follower.append_fetched(data_of(leader), NOW)
    before, *later = follower.segments[-3:]
    ends_now = [header.base_offset for header, _ in read_batches(follower)]
    ends_now = [offset for offset in ends_now if offset < later[0].base_offset]
    disk = disk.kill()
    disk.open(before.path).truncate(before.size - last_batch_size(before))
    for segment in later:
        if empty:
            disk.open(segment.path).truncate(0)
    after = reopened(disk, config)
    assert after.end_offset == ends_now[-1]
    assert [each.path for each in after.segments if each.base_offset > ends_now[-1]] == []
    after.append_fetched(data_of(leader, after.end_offset), NOW)
    assert same(leader, after)


def last_batch_size(segment: Segment) -> int:
    sizes = [header.size for _, header in headers(segment.file(), 0, segment.size)]
    return sizes[-1]


def test_an_empty_log_begins_where_the_leaders_first_batch_does() -> None:
    leader = leader_log(10)
    follower = new_log(SimulatedDisk(), SMALL)[1]
    follower.restart_at(7)  # in the middle of the batch from 6 on
    follower.append_fetched(data_of(leader, 7), NOW)
    assert follower.end_offset == leader.end_offset
    assert follower.start_offset == 6


def test_a_log_that_restarts_has_nothing_of_before() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, SMALL)
    log.append_fetched(data_of(leader_log(30)), NOW)
    log.restart_at(500)
    directory.checkpoint()
    assert (log.start_offset, log.end_offset, log.high_watermark, log.size) == (500, 500, 500, 0)
    assert log.epochs.latest == -1
    assert not log.producers.entries
    after = open_directory(disk.kill(), SMALL).logs[log.partition]
    assert (after.start_offset, after.end_offset) == (500, 500)


def test_a_disk_that_fails_leaves_whole_batches() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)[1]
    log.append_fetched(data_of(leader_log(4)), NOW)
    more = data_of(leader_log(8), log.end_offset)
    disk.fail_write(log.segments[-1].path, after_bytes=log.size + 100)
    with pytest.raises(Failed):
        log.append_fetched(more, NOW)
    assert log.end_offset == 12
    disk.heal()
    log.append_fetched(more, NOW)
    assert log.end_offset == 24


def test_a_cut_without_syncs_is_a_cut() -> None:
    disk = SimulatedDisk()
    directory, log = new_log(disk, SMALL)
    log.append_fetched(data_of(leader_log(30)), NOW)
    log.truncate_to(40, sync=False)
    directory.checkpoint()
    assert log.end_offset == 39
    assert log.cuts == 1
    assert open_directory(disk.kill(), SMALL).logs[log.partition].end_offset == 39
