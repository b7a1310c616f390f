"""Floors in both indexes, against a plain search."""

from bisect import bisect_right
from random import Random

import pytest

from barnabas.log.segments.index import OffsetIndex, TimeIndex
from tests.simulator.disk import SimulatedDisk


def rising(rng: Random, count: int, step_max: int) -> list[int]:
    value, values = 0, []
    for _ in range(count):
        value += rng.choice((1, 2, rng.randint(1, step_max)))
        values.append(value)
    return values


@pytest.mark.parametrize("seed", range(30))
def test_floors_are_those_of_a_plain_search(seed: int) -> None:
    rng = Random(seed)
    disk = SimulatedDisk()
    count = rng.choice((0, 1, 2, 3, 10, 500))
    offsets = rising(rng, count, rng.choice((1, 50, 100_000)))
    positions = rising(rng, count, rng.choice((1, 5000)))
    times = rising(rng, count, rng.choice((3, 1000)))
    index, time_index = OffsetIndex(disk, "/i", 0), TimeIndex(disk, "/t", 0)
    for offset, position, time in zip(offsets, positions, times, strict=True):
        assert index.reserve(1 << 16) > 0
        index.append(offset, position)
        assert time_index.reserve(1 << 16, spare=1) > 0
        time_index.append(time, offset)
    for _ in range(300):
        key = rng.randint(0, (offsets or [1])[-1] + 2)
        slot = bisect_right(offsets, key) - 1
        assert index.floor(key) == (positions[slot] if slot >= 0 else 0)
        key = rng.randint(0, (positions or [1])[-1] + 2)
        slot = bisect_right(positions, key) - 1
        assert index.floor_position(key)[1] == (positions[slot] if slot >= 0 else 0)
        key = rng.randint(0, (times or [1])[-1] + 2)
        slot = bisect_right(times, key - 1) - 1
        assert time_index.floor(key)[1] == (offsets[slot] if slot >= 0 else 0)
    assert index.floor(-1) == 0
    assert index.problem() == index.last_problem(10**9, 2**31) == ""
    assert time_index.problem() == ""
    index.trim()
    time_index.trim()
    if count:
        assert disk.size("/i") == count * 8
        assert disk.size("/t") == count * 12
        assert index.entry(count - 1) == (offsets[-1], positions[-1])


def test_truncation_forgets_entries_at_and_above_the_offset() -> None:
    disk = SimulatedDisk()
    index, times = OffsetIndex(disk, "/i", 0), TimeIndex(disk, "/t", 0)
    for number in range(1, 6):
        index.reserve(1000)
        times.reserve(1000)
        index.append(number * 10, number * 100)
        times.append(number, number * 10)
    index.truncate_to(30)
    times.truncate_to(30)
    assert (index.count, times.count, times.last_timestamp) == (2, 2, 2)
    index.trim()
    assert disk.size("/i") == 16


def test_a_time_index_takes_only_later_times() -> None:
    times = TimeIndex(SimulatedDisk(), "/t", 0)
    times.reserve(1000)
    for time in (5, 5, 3, 6):
        times.append(time, time)
    assert (times.count, times.last_entry()) == (2, (6, 6))


def test_room_is_backed_by_blocks_before_it_is_used() -> None:
    """A store into a hole of a full disk would end the process; a write raises."""
    disk = SimulatedDisk()
    index = OffsetIndex(disk, "/i", 0)
    disk.fail_write("/i", after_bytes=0)
    with pytest.raises(OSError, match="no space"):
        index.reserve(1 << 20)
    assert index.reserve(1 << 20) == 512
