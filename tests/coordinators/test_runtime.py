"""The runtime under any shard: loading, refusals, leadership lost, timers."""

import pytest

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.runtime import Now, Runtime
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code, Corrupt, Retriable
from barnabas.wire.records import Record, encode_batch
from tests.coordinators.world import PARTITION, MemoryJournal, World, broken_disk


def test_a_shard_that_is_loading_is_asked_nothing() -> None:
    runtime: Runtime[GroupShard] = Runtime()
    runtime.start_loading(PARTITION, GroupShard(GroupLimits()), MemoryJournal())
    assert runtime.is_loading()
    with pytest.raises(Retriable) as refused:
        runtime.shard(PARTITION)
    assert refused.value.code is Code.COORDINATOR_LOAD_IN_PROGRESS
    assert runtime.next_deadline() is None
    runtime.finish_loading(PARTITION, Now(0, 0))
    assert not runtime.is_loading()


def test_a_shard_of_another_broker_is_not_ours() -> None:
    with pytest.raises(Retriable) as refused:
        Runtime[GroupShard]().shard(9)
    assert refused.value.code is Code.NOT_COORDINATOR


def test_a_log_with_a_record_that_cannot_be_read_is_not_loaded() -> None:
    """Better no answer than one that forgets a commit."""
    runtime: Runtime[GroupShard] = Runtime()
    runtime.start_loading(PARTITION, GroupShard(GroupLimits()), MemoryJournal())
    with pytest.raises(Corrupt, match="no key"):
        runtime.load(PARTITION, encode_batch([Record(0, 0, None, b"x")]))
    with pytest.raises(Corrupt):
        runtime.load(PARTITION, encode_batch([Record(0, 0, b"\0\x01\0", b"x")]))


def test_when_leadership_moves_all_waiting_requests_are_answered() -> None:
    world = World()
    (one, _), _ = world.stable(2)
    waiting = world.join(one)
    world.journal.lagging = True
    parked = world.commit(5, group="other")
    world.deliver(world.runtime.unload(PARTITION))
    assert waiting.code is Code.NOT_COORDINATOR
    assert parked.response.topics[0].partitions[0].error_code == Code.NOT_COORDINATOR
    with pytest.raises(Retriable):
        world.runtime.shard(PARTITION)


def test_a_group_whose_assignment_is_not_stored_is_again_what_the_log_says() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    joins = [world.join(one), world.join(two)]
    assert joins[0].response.generation_id == generation + 1
    follower = world.sync(two, generation + 1)
    world.journal.error = broken_disk()
    leader = world.sync(one, generation + 1, {one: b"1", two: b"2"})
    assert leader.code is follower.code is Code.NOT_COORDINATOR
    world.journal.error = None
    assert world.heartbeat(one, generation) is Code.NONE
    again = [world.join(one), world.join(two)]
    assert again[0].response.generation_id == generation + 1
    world.share_out([one, two], generation + 1)
    assert world.state() == "Stable"


def test_a_shard_that_fails_keeps_no_answer_of_another_from_leaving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.runtime.start_loading(1, GroupShard(GroupLimits()), MemoryJournal())
    world.runtime.finish_loading(1, world.now)
    _, waiting = world.new()
    broken = world.runtime.shard(1)
    monkeypatch.setattr(broken, "due", lambda now: 1 // 0)
    monkeypatch.setattr(broken, "next_deadline", lambda: 0)
    faults: list[Exception] = []
    world.ms = 2 * world.limits.initial_rebalance_delay_ms
    world.deliver(world.runtime.expire(world.now, faults.append))
    assert not waiting.waits
    assert len(faults) == 1


def test_after_a_restart_members_have_a_whole_session_to_show_up() -> None:
    world = World()
    (one, two), generation = world.stable(2, session=10_000)
    world.start()
    world.advance(9_999)
    assert world.heartbeat(one, generation) is Code.NONE
    world.advance(1)
    assert world.heartbeat(two, generation) is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("stage", ["joining", "joined", "synced", "stable", "committing"])
def test_a_coordinator_that_dies_at_any_stage_comes_back(stage: str) -> None:
    """The old generation and its offsets are there; members of an unfinished one rejoin."""
    world = World()
    (one, two), generation = world.stable(2)
    assert world.commit_code(5, member=one, generation=generation) is Code.NONE
    if stage == "joining":
        world.join(one)
    elif stage in ("joined", "synced"):
        world.join(one)
        world.join(two)
        generation += 1
        if stage == "synced":
            world.share_out([one, two], generation)
    elif stage == "committing":
        world.journal.error = broken_disk()
        assert world.commit_code(6, member=one, generation=generation) is not Code.NONE
        world.journal.error = None
    world.start()
    assert world.fetch() == (5, "")
    if stage == "joined":
        assert world.heartbeat(one, generation) is Code.ILLEGAL_GENERATION
        assert [world.join(one).waits, world.join(two).waits] == [True, False]
        world.share_out([one, two], generation)
    assert world.state() == "Stable"
    assert world.heartbeat(two, generation) is Code.NONE


def test_a_group_over_a_lowered_limit_is_rebalanced_when_it_is_loaded() -> None:
    world = World()
    (one, two), _ = world.stable(2)
    world.limits = GroupLimits(members_max=1)
    world.start()
    assert world.state() == "PreparingRebalance"
    first = world.join(one)
    assert world.join(two).code is Code.GROUP_MAX_SIZE_REACHED
    assert [member.member_id for member in first.response.members] == [one]


def test_a_timer_fires_once_at_the_time_it_was_last_set_to() -> None:
    timers: Timers[str] = Timers()
    early, late, never = Timer("early"), Timer("late"), Timer("never")
    timers.set(late, 10)
    timers.set(early, 50)
    timers.set(never, 20)
    timers.set(late, 100)
    timers.set(early, 5)
    never.stop()
    fired = []
    for now in (4, 5, 10, 20, 50, 99, 100, 200):
        while (timer := timers.pop_due(now)) is not None:
            fired.append((now, timer.key))
    assert fired == [(5, "early"), (100, "late")]
    assert timers.next_deadline() is None


def test_moving_a_timer_later_a_million_times_costs_no_memory() -> None:
    timers: Timers[str] = Timers()
    timer = Timer("session")
    for at in range(100, 10_000):
        timers.set(timer, at)
    deadline = timers.next_deadline()
    assert deadline is not None
    assert deadline <= 9_999
    assert len(timers) == 1
