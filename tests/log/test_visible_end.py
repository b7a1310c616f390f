"""Where readers of a log with delayed delivery end, against a list of batches and their times."""

import random
from collections.abc import Callable

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Log
from barnabas.log.visible_end import VisibleEnd
from tests.log.batches import NOW, batch, new_log, reopened
from tests.simulator.disk import SimulatedDisk

CONFIG = LogConfig(
    segment_bytes=1500,
    index_interval_bytes=200,
    segment_index_bytes=4096,
    timestamp_type="append",
    retention_ms=-1,
)
DELAY = 50


def expected(batches: list[tuple[int, int]], now: int, high: int) -> int:
    """`batches`: the first offset and the time of each, in the order of the log."""
    return min([first for first, time in batches if now < time + DELAY] + [high])


def history(seed: int, new: Callable[[int], VisibleEnd]) -> None:
    """Appends, reads, restarts, and a clock that also steps back."""
    chance = random.Random(seed)
    disk = SimulatedDisk()
    log = new_log(disk, CONFIG)[1]
    visible, batches, now, before = new(DELAY), [], NOW, 0
    for _ in range(150):
        action = chance.random()
        if action < 0.5:
            batches.append((log.end_offset, now))
            log.append(batch(chance.randrange(1, 4)), 1, now)
            log.advance_high_watermark(log.end_offset)
        elif action < 0.55:
            now -= chance.randrange(100)
        elif action < 0.57:
            disk = disk.kill()
            log = reopened(disk, CONFIG)
            log.advance_high_watermark(log.end_offset)
            visible, before = new(DELAY), 0
        else:
            now += chance.choice((0, 1, 7, 30))
        end = visible.advance(log, now)
        # Once visible, always visible: the clock may have stepped back since.
        assert end == max(before, expected(batches, now, log.high_watermark))
        assert end == visible.advance(log, now)
        due = visible.due
        assert (due is None) == (end == log.high_watermark)
        assert due is None or now < due or end > expected(batches, now, log.high_watermark)
        before = end
    now = max(now, *(time for _, time in batches)) + DELAY
    assert visible.advance(log, now) == log.high_watermark


@pytest.mark.parametrize("seed", range(60))
def test_readers_end_at_the_first_batch_that_is_younger_than_the_delay(seed: int) -> None:
    history(seed, VisibleEnd)


class Early(VisibleEnd):
    """A millisecond too early."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms - 1)


class Falling(VisibleEnd):
    """Forgets what was visible before the clock stepped back."""

    def advance(self, log: Log, now: int) -> int:
        self.offset, self.due = 0, None
        return super().advance(log, now)


class Stuck(VisibleEnd):
    """Never looks again once nothing was hidden."""

    def advance(self, log: Log, now: int) -> int:
        if self.offset and self.due is None:
            return self.offset
        return super().advance(log, now)


@pytest.mark.parametrize("planted", [Early, Falling, Stuck])
def test_a_planted_bug_is_found(planted: type[VisibleEnd]) -> None:
    def finds(seed: int) -> bool:
        try:
            history(seed, planted)
        except AssertionError:
            return True
        return False

    assert any(finds(seed) for seed in range(20))


def test_nothing_is_read_from_the_log_until_the_next_batch_is_due() -> None:
    log = new_log(SimulatedDisk(), CONFIG)[1]
    log.append(batch(), 1, NOW)
    log.advance_high_watermark(1)
    visible = VisibleEnd(DELAY)
    assert visible.advance(log, NOW) == 0
    assert visible.due == NOW + DELAY
    log.segments = []  # a look there would find nothing, and make all visible
    assert visible.advance(log, NOW + DELAY - 1) == 0


def test_a_truncated_log_ends_where_it_was_truncated() -> None:
    log = new_log(SimulatedDisk(), CONFIG)[1]
    for _ in range(3):
        log.append(batch(), 1, NOW)
        log.advance_high_watermark(log.end_offset)
    visible = VisibleEnd(DELAY)
    assert visible.advance(log, NOW + DELAY) == 3
    log.truncate_to(1)
    assert visible.advance(log, NOW + DELAY) == 1


def test_hidden_batches_that_are_deleted_leave_nothing_to_wait_for() -> None:
    """Or the timer of the readers would fire again and again."""
    log = new_log(SimulatedDisk(), CONFIG)[1]
    visible = VisibleEnd(DELAY)
    log.append(batch(3), 1, NOW)
    log.advance_high_watermark(log.end_offset)
    assert visible.advance(log, NOW) == 0
    log.delete_before(log.end_offset)
    assert visible.advance(log, NOW + DELAY) == log.end_offset
    assert visible.due is None
