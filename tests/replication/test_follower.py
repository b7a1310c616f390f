"""Where a follower's log is cut, and what it takes over."""

from barnabas.log.epochs import LeaderEpochs
from barnabas.model.ids import BrokerId
from barnabas.replication.follower import (
    BACKOFF_MS_MAX,
    Follower,
    divergence,
    marks,
    truncation_offset,
)
from barnabas.replication.state import PartitionState


def test_a_log_that_is_the_beginning_of_the_leaders_is_not_cut() -> None:
    leader = LeaderEpochs([(0, 0), (2, 10)])
    assert divergence(leader, 20, last_epoch=0, offset=10) is None
    assert divergence(leader, 20, last_epoch=0, offset=5) is None
    assert divergence(leader, 20, last_epoch=2, offset=20) is None


def test_records_that_the_leader_never_had_are_cut_at_the_end_of_its_epoch() -> None:
    leader = LeaderEpochs([(0, 0), (2, 10)])
    follower = LeaderEpochs([(0, 0)])
    found = divergence(leader, 20, last_epoch=0, offset=15)
    assert found == (0, 10)
    assert truncation_offset(follower, 15, *found) == 10


def test_an_epoch_that_the_leader_does_not_know_goes_whole() -> None:
    leader = LeaderEpochs([(0, 0), (3, 10)])
    follower = LeaderEpochs([(0, 0), (2, 8)])
    found = divergence(leader, 20, last_epoch=2, offset=12)
    assert found == (0, 10)
    assert truncation_offset(follower, 12, *found) == 8


def test_logs_of_fast_elections_meet_step_by_step() -> None:
    """Three leaders in a row, each with records that the next did not see."""
    leader = LeaderEpochs([(1, 0), (4, 5), (7, 9)])
    entries, end = [(1, 0), (2, 3), (5, 6), (6, 8)], 10
    follower = LeaderEpochs(entries)
    for _ in range(len(entries)):
        found = divergence(leader, 20, follower.latest, end)
        if found is None:
            break
        end = truncation_offset(follower, end, *found)
        follower.truncate_end(end)
    assert (end, follower.entries) == (3, [(1, 0)])


def test_an_empty_log_takes_whatever_there_is() -> None:
    assert divergence(LeaderEpochs([(3, 50)]), 60, last_epoch=-1, offset=50) is None


def test_an_epoch_beyond_all_that_the_leader_knows_cannot_be_judged() -> None:
    assert divergence(LeaderEpochs([(3, 0)]), 60, last_epoch=9, offset=50) == (-1, -1)


def test_a_log_with_nothing_but_later_epochs_is_cut_to_its_start() -> None:
    follower = LeaderEpochs([(5, 20), (6, 25)])
    assert truncation_offset(follower, 30, leader_epoch=3, leader_end=22) == 20


def test_the_watermark_is_not_above_what_is_here() -> None:
    assert marks(100, 20, end=60) == (60, 20)
    assert marks(100, 80, end=60) == (60, 60)
    assert marks(50, 20, end=60) == (50, 20)


def test_failures_wait_longer_each_time_and_are_forgotten_with_success() -> None:
    follower = Follower(
        PartitionState(BrokerId(1), 5, (BrokerId(1),), 0, (BrokerId(1), BrokerId(2)))
    )
    waits = [follower.failed(1000) - 1000 for _ in range(8)]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF_MS_MAX
    assert not follower.is_ready(1000)
    follower.succeeded()
    assert follower.is_ready(1000)
