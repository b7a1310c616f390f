"""The leader's decisions, a race each."""

import pytest

from barnabas.model.ids import BrokerId
from barnabas.replication.leader import (
    JOINING_MS_MAX,
    REJECTED_WAIT_MS,
    IsrProposal,
    Leader,
    NotAReplica,
    OldIncarnation,
)
from barnabas.replication.state import PartitionState

LAG = 10_000


def state(isr: str = "123", partition_epoch: int = 0, replicas: str = "123") -> PartitionState:
    return PartitionState(
        leader=BrokerId(1),
        leader_epoch=5,
        isr=tuple(BrokerId(int(each)) for each in isr),
        partition_epoch=partition_epoch,
        replicas=tuple(BrokerId(int(each)) for each in replicas),
    )


def leader(
    isr: str = "123", end: int = 0, high_watermark: int = 0, replicas: str = "123"
) -> Leader:
    return Leader(
        BrokerId(1),
        state(isr, replicas=replicas),
        end=end,
        high_watermark=high_watermark,
        lag_ms_max=LAG,
        now=0,
    )


def fetch(
    machine: Leader, who: int, offset: int, now: int = 0, epoch: int = 1
) -> IsrProposal | None:
    return machine.fetched(BrokerId(who), offset, start=0, broker_epoch=epoch, now=now)


def isr_of(proposal: IsrProposal | None) -> list[int]:
    assert proposal is not None
    return list(proposal.isr)


def accept(machine: Leader, now: int = 0) -> None:
    pending = machine.pending
    assert pending is not None
    assert machine.answered(pending, 5, pending.partition_epoch + 1, pending.isr, now)


def test_a_record_is_committed_when_every_in_sync_replica_has_it() -> None:
    machine = leader()
    machine.appended(10, now=0)
    fetch(machine, 2, 10)
    assert machine.high_watermark == 0
    fetch(machine, 3, 7)
    assert machine.high_watermark == 7
    fetch(machine, 3, 10)
    assert machine.high_watermark == 10


def test_a_leader_who_is_all_replicas_commits_what_it_appends() -> None:
    machine = leader("1", replicas="1")
    machine.appended(3, now=0)
    assert machine.high_watermark == 3


def test_what_a_new_leader_has_not_synced_yet_does_not_count_as_its_copy() -> None:
    machine = Leader(
        BrokerId(1), state("1"), end=3, high_watermark=0, lag_ms_max=LAG, now=0, epoch_start=5
    )
    assert machine.high_watermark == 3
    assert fetch(machine, 2, 4) is None, "it lacks the end of the epoch before"
    assert isr_of(fetch(machine, 2, 5)) == [1, 2]
    accept(machine)
    assert machine.high_watermark == 3
    machine.appended(5, now=0)
    assert machine.high_watermark == 5


def test_the_watermark_never_goes_back_when_a_follower_does() -> None:
    machine = leader()
    machine.appended(10, now=0)
    fetch(machine, 2, 10)
    fetch(machine, 3, 10)
    fetch(machine, 3, 4)  # its disk lost something
    assert machine.high_watermark == 10


def test_lag_counts_from_when_a_follower_was_last_level() -> None:
    """Fetching without drawing level must not keep a follower in sync."""
    machine = leader()
    machine.appended(100, now=0)
    fetch(machine, 2, 100, now=1)
    for now in range(1000, LAG + 1, 1000):
        fetch(machine, 3, now // 1000, now=now)
        machine.records_sent(BrokerId(3), now)
        machine.appended(100 + now, now=now)
        fetch(machine, 2, 100 + now, now=now)
    assert machine.tick(LAG) is None
    assert isr_of(machine.tick(LAG + 1)) == [1, 2]


def test_a_follower_always_one_step_behind_a_busy_leader_stays_in_sync() -> None:
    machine = leader("12", replicas="12")
    end = 0
    for now in range(0, 5 * LAG, 100):
        fetch(machine, 2, end, now=now)  # what it was given last, while more came
        end += 10
        machine.appended(end, now=now)
        machine.records_sent(BrokerId(2), now)
        machine.appended(end + 5, now=now)
        assert machine.tick(now) is None


def test_a_follower_that_has_everything_is_in_sync_however_long_it_is_silent() -> None:
    machine = leader("12", end=5, replicas="12")
    fetch(machine, 2, 5)
    assert machine.tick(100 * LAG) is None
    machine.appended(6, now=100 * LAG)
    assert machine.tick(101 * LAG) is None
    assert isr_of(machine.tick(101 * LAG + 1)) == [1]


def test_a_follower_that_never_fetched_is_late_after_the_lag() -> None:
    machine = leader("12", replicas="12")
    assert machine.tick(LAG) is None
    assert isr_of(machine.tick(LAG + 1)) == [1]


def test_until_the_controller_answers_the_larger_set_counts_when_it_shrinks() -> None:
    machine = leader()
    machine.appended(10, now=0)
    fetch(machine, 2, 10)
    assert isr_of(machine.tick(LAG + 1)) == [1, 2]
    assert machine.high_watermark == 0, "3 may still be elected"
    accept(machine, now=LAG + 2)
    assert machine.high_watermark == 10


def test_until_the_controller_answers_the_larger_set_counts_when_it_grows() -> None:
    machine = leader("12", end=10, high_watermark=10)
    fetch(machine, 2, 10)
    assert isr_of(fetch(machine, 3, 10)) == [1, 2, 3]
    machine.appended(20, now=5)
    fetch(machine, 2, 20, now=5)
    assert machine.high_watermark == 10, "the controller may already have 3 in it"
    fetch(machine, 3, 20, now=6)
    assert machine.high_watermark == 20


def test_one_proposal_at_a_time() -> None:
    machine = leader("1", end=5, high_watermark=5)
    assert isr_of(fetch(machine, 2, 5)) == [1, 2]
    assert fetch(machine, 3, 5) is None
    accept(machine)
    assert isr_of(fetch(machine, 3, 5)) == [1, 2, 3]


def test_a_follower_without_all_that_is_committed_stays_out() -> None:
    machine = leader("12", end=10, high_watermark=8)
    assert fetch(machine, 3, 7) is None
    fetch(machine, 2, 10)


def test_a_follower_without_the_start_of_this_epoch_stays_out() -> None:
    """The watermark of a new leader lags behind what its predecessor had committed."""
    machine = leader("12", end=10, high_watermark=4)
    assert fetch(machine, 3, 7) is None
    assert isr_of(fetch(machine, 3, 10)) == [1, 2, 3]


def test_the_watermark_waits_for_a_follower_about_to_come_in() -> None:
    machine = leader("1", end=10, high_watermark=10, replicas="12")
    assert fetch(machine, 2, 5, now=0) is None
    machine.records_sent(BrokerId(2), now=0)
    machine.appended(20, now=1)
    assert machine.high_watermark == 20
    assert fetch(machine, 2, 10, now=2) is None
    machine.appended(30, now=3)
    assert machine.high_watermark == 20, "it draws level with what there was when it asked"
    assert isr_of(fetch(machine, 2, 20, now=4)) == [1, 2]


def test_the_watermark_does_not_wait_long_for_one_that_never_comes() -> None:
    machine = leader("1", end=10, high_watermark=10, replicas="12")
    proposal = fetch(machine, 2, 10, now=0)
    assert proposal is not None
    machine.rejected(proposal, now=0)
    machine.appended(20, now=1)
    assert machine.high_watermark == 20, "the controller does not want it"
    fetch(machine, 2, 20, now=REJECTED_WAIT_MS)
    assert machine.pending is not None
    machine.update(state("1", 7, "12"), now=REJECTED_WAIT_MS)
    fetch(machine, 2, 15, now=REJECTED_WAIT_MS + 1)
    machine.appended(30, now=REJECTED_WAIT_MS + 2)
    machine.tick(REJECTED_WAIT_MS + 3 + JOINING_MS_MAX)
    assert machine.high_watermark == 30


def test_one_that_was_rejected_is_proposed_again_after_a_while() -> None:
    machine = leader("1", end=5, high_watermark=5)
    proposal = fetch(machine, 2, 5, now=0)
    assert proposal is not None
    machine.rejected(proposal, now=10)
    assert fetch(machine, 2, 5, now=11) is None
    assert isr_of(fetch(machine, 2, 5, now=10 + REJECTED_WAIT_MS)) == [1, 2]


def test_an_answer_older_than_what_is_known_changes_nothing() -> None:
    machine = leader("1", end=5, high_watermark=5)
    proposal = fetch(machine, 2, 5)
    assert proposal is not None
    assert machine.update(state("1", 9), now=0)
    assert not machine.answered(proposal, 5, 1, (BrokerId(1), BrokerId(2)), 0)
    assert machine.isr == (1,)
    assert not machine.answered(proposal, 4, 10, (BrokerId(1), BrokerId(2)), 0)


def test_an_answer_that_comes_twice_does_not_end_the_next_proposal() -> None:
    machine = leader("1", end=5, high_watermark=5)
    first = fetch(machine, 2, 5)
    assert first is not None
    accept(machine)
    second = fetch(machine, 3, 5)
    assert not machine.answered(first, 5, 1, first.isr, 0)
    assert machine.pending is second
    machine.rejected(first, now=0)
    assert machine.pending is second


def test_the_controllers_word_ends_a_proposal() -> None:
    machine = leader()
    machine.appended(10, now=0)
    fetch(machine, 2, 10)
    machine.tick(LAG + 1)
    assert machine.update(state("12", 1), now=LAG + 2)
    assert machine.pending is None
    assert machine.high_watermark == 10
    assert not machine.update(state("123", 1), now=LAG + 3), "the same word again"


def test_one_that_the_controller_took_out_holds_nothing_up() -> None:
    """It was level a moment ago, and is dead."""
    machine = leader()
    fetch(machine, 2, 0)
    fetch(machine, 3, 0)
    machine.appended(10, now=1)
    fetch(machine, 2, 10, now=2)
    assert machine.high_watermark == 0
    machine.update(state("12", 1), now=3)
    assert machine.high_watermark == 10


def test_with_too_few_in_sync_nothing_is_committed() -> None:
    machine = leader("12", replicas="12")
    machine.configure(min_isr=2, lag_ms_max=LAG, now=0)
    machine.update(state("1", 1, "12"), now=0)
    machine.appended(10, now=0)
    assert machine.high_watermark == 0
    machine.configure(min_isr=1, lag_ms_max=LAG, now=0)
    assert machine.high_watermark == 10


def test_nobody_else_counts_as_a_replica() -> None:
    machine = leader("12", replicas="12")
    with pytest.raises(NotAReplica):
        fetch(machine, 9, 100)


def test_a_follower_from_before_its_restart_does_not_count() -> None:
    machine = leader("12", replicas="12")
    machine.appended(10, now=0)
    fetch(machine, 2, 3, epoch=8)
    with pytest.raises(OldIncarnation):
        fetch(machine, 2, 10, epoch=7)
    assert machine.high_watermark == 3


def test_a_proposal_names_the_epochs_that_replicas_fetched_with() -> None:
    machine = leader("1", replicas="12")
    proposal = fetch(machine, 2, 0, epoch=77)
    assert proposal is not None
    assert proposal.broker_epochs == (-1, 77)


def test_one_that_drew_level_while_a_proposal_was_out_comes_in_without_fetching_again() -> None:
    """An idle follower has nothing to say; and with too few in sync nothing is appended."""
    machine = leader(isr="1", end=5, high_watermark=5)
    assert isr_of(fetch(machine, 2, 5)) == [1, 2]
    assert fetch(machine, 3, 5) is None
    assert machine.has_caught_up_outsider
    accept(machine)
    assert isr_of(machine.tick(now=1)) == [1, 2, 3]
    pending = machine.pending
    assert pending is not None
    machine.rejected(pending, now=1)
    assert machine.tick(now=2) is None
    assert machine.has_caught_up_outsider
    assert isr_of(machine.tick(now=1 + REJECTED_WAIT_MS)) == [1, 2, 3]
    accept(machine)
    assert not machine.has_caught_up_outsider


def test_one_that_the_controller_took_out_comes_in_only_when_it_asks_again() -> None:
    machine = leader(end=5, high_watermark=5)
    fetch(machine, 2, 5)
    fetch(machine, 3, 5)
    machine.update(state("12", partition_epoch=1), now=1)
    assert not machine.has_caught_up_outsider
    assert machine.tick(now=2) is None
    assert isr_of(fetch(machine, 3, 5, now=3, epoch=2)) == [1, 2, 3]


def test_one_that_came_back_before_the_controller_took_it_out_need_not_ask_again() -> None:
    """It has said all it has to say: on an idle partition it would wait for ever."""
    machine = leader(end=5, high_watermark=5)
    fetch(machine, 2, 5, epoch=1)
    fetch(machine, 3, 5, epoch=1)
    fetch(machine, 3, 5, epoch=2)
    machine.update(state("12", partition_epoch=1), now=1)
    assert machine.has_caught_up_outsider
    assert isr_of(machine.tick(now=2)) == [1, 2, 3]


def test_one_that_fell_behind_need_not_ask_again_where_the_answer_to_that_was_lost() -> None:
    """The controller's word comes by LeaderAndIsr then; on an idle partition nobody asks again."""
    machine = leader(end=5, high_watermark=5)
    fetch(machine, 2, 5)
    fetch(machine, 3, 5)
    machine.appended(6, now=0)
    fetch(machine, 2, 6)
    assert isr_of(machine.tick(LAG + 1)) == [1, 2]
    assert fetch(machine, 3, 6, now=LAG + 2) is None, "that one is not answered yet"
    assert machine.update(state("12", partition_epoch=1), now=LAG + 3)
    assert isr_of(machine.tick(now=LAG + 4)) == [1, 2, 3]


def test_one_that_is_rejected_again_waits_longer_unless_it_has_registered_again() -> None:
    """A broker that is stopping goes on fetching, and nobody wants to hear of it every second."""
    machine = leader("1", end=5, high_watermark=5)
    now = 0
    for wait_ms in (REJECTED_WAIT_MS, 2 * REJECTED_WAIT_MS, 4 * REJECTED_WAIT_MS):
        proposal = fetch(machine, 2, 5, now=now)
        assert proposal is not None
        machine.rejected(proposal, now=now)
        assert machine.tick(now + wait_ms - 1) is None
        now += wait_ms
    proposal = fetch(machine, 2, 5, now=now)
    assert proposal is not None
    machine.rejected(proposal, now=now)
    assert isr_of(fetch(machine, 2, 5, now=now + 1, epoch=2)) == [1, 2]


def test_one_whose_broker_is_gone_is_not_proposed_until_it_asks_again() -> None:
    machine = leader("13", end=5, high_watermark=5)
    proposal = fetch(machine, 2, 5)
    assert proposal is not None
    machine.rejected(proposal, now=0)
    for who in (2, 3):
        machine.broker_unregistered(BrokerId(who))
    assert not machine.has_caught_up_outsider
    machine.appended(6, now=1)
    fetch(machine, 3, 6, now=2)
    assert machine.high_watermark == 6, "nobody waits for it"
    assert machine.tick(LAG) is None
    assert isr_of(fetch(machine, 2, 6, now=LAG, epoch=2)) == [1, 3, 2]
