"""Committed offsets: who may commit, what is kept, and for how long."""

import pytest

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.runtime import Outcome
from barnabas.model.errors import Code
from tests.coordinators.world import World, broken_disk

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def test_a_commit_is_found_with_its_metadata() -> None:
    world = World()
    ids, generation = world.stable(2)
    code = world.commit_code(42, member=ids[0], generation=generation, metadata="as far as here")
    assert code is Code.NONE
    assert world.fetch() == (42, "as far as here")
    world.commit(43, member=ids[0], generation=generation, metadata=None)
    assert world.fetch() == (43, "")


def test_what_was_never_committed_is_answered_with_minus_one() -> None:
    world = World()
    assert world.fetch("nothing", 7) == (-1, "")


def test_anybody_may_commit_for_a_group_without_members() -> None:
    world = World()
    assert world.commit_code(7) is Code.NONE
    assert world.fetch() == (7, "")
    assert world.state() == "Empty"


def test_nobody_from_outside_may_commit_for_a_group_with_members() -> None:
    world = World()
    world.stable(2)
    assert world.commit_code(7) is Code.UNKNOWN_MEMBER_ID
    assert world.fetch() == (-1, "")


def test_a_commit_of_another_generation_or_member_is_refused() -> None:
    world = World()
    (one, _), generation = world.stable(2)
    assert world.commit_code(1, member=one, generation=generation + 1) is Code.ILLEGAL_GENERATION
    assert world.commit_code(1, member=one, generation=generation - 1) is Code.ILLEGAL_GENERATION
    assert world.commit_code(1, member="x", generation=generation) is Code.UNKNOWN_MEMBER_ID
    assert world.fetch() == (-1, "")


def test_a_member_of_a_deleted_group_gets_the_error_of_its_protocol() -> None:
    world = World()
    assert world.commit_code(1, member="x", generation=3) is Code.GROUP_ID_NOT_FOUND
    assert world.commit_code(1, member="x", generation=3, version=8) is Code.ILLEGAL_GENERATION


def test_members_commit_while_a_rebalance_is_prepared_but_not_while_it_completes() -> None:
    """The last commit before giving partitions up is the one that matters most."""
    world = World()
    (one, two), generation = world.stable(2)
    world.join(one)
    assert world.commit_code(5, member=two, generation=generation) is Code.NONE
    world.join(two)
    assert world.state() == "CompletingRebalance"
    late = world.commit_code(6, member=two, generation=generation)
    assert late is Code.ILLEGAL_GENERATION
    early = world.commit_code(6, member=two, generation=generation + 1)
    assert early is Code.REBALANCE_IN_PROGRESS
    assert world.fetch() == (5, "")


def test_a_commit_shows_life() -> None:
    world = World()
    (one, two), generation = world.stable(2, session=10_000)
    for _ in range(3):
        world.advance(8_000)
        world.commit(1, member=one, generation=generation)
        world.heartbeat(two, generation)
    assert world.state() == "Stable"


def test_metadata_that_is_too_long_fails_alone() -> None:
    world = World(GroupLimits(offset_metadata_chars_max=10))
    assert world.commit_code(1, metadata="x" * 11) is Code.OFFSET_METADATA_TOO_LARGE
    assert world.commit_code(1, metadata="x" * 10) is Code.NONE


def test_offsets_of_an_empty_group_go_a_while_after_it_became_empty() -> None:
    world = World()
    ids, generation = world.stable(2, session=1_800_000)
    world.commit(5, member=ids[0], generation=generation)
    world.leave(*ids)
    world.advance(7 * DAY_MS - HOUR_MS)
    assert world.fetch() == (5, "")
    world.advance(2 * HOUR_MS)
    assert world.fetch() == (-1, "")
    assert world.state() is None
    world.start()
    assert world.state() is None


def test_offsets_of_a_simple_group_go_a_while_after_each_commit() -> None:
    world = World()
    world.commit(5, topic="old")
    world.advance(4 * DAY_MS)
    world.commit(6, topic="new")
    world.advance(4 * DAY_MS)
    assert (world.fetch("old")[0], world.fetch("new")[0]) == (-1, 6)
    world.advance(4 * DAY_MS)
    assert world.state() is None


def test_a_group_with_members_loses_only_topics_it_has_left() -> None:
    world = World(GroupLimits(offsets_retention_ms=HOUR_MS))
    (one, two), generation = world.stable(2, topics=["t"], session=1_800_000)
    world.commit(5, member=one, generation=generation, topic="t")
    world.commit(5, member=one, generation=generation, topic="former")
    for _ in range(5):
        world.advance(HOUR_MS // 3)
        assert world.heartbeat(one, generation) is world.heartbeat(two, generation) is Code.NONE
    assert (world.fetch("t")[0], world.fetch("former")[0]) == (5, -1)


def test_an_old_client_may_say_how_long_to_keep_an_offset() -> None:
    world = World()
    world.commit(5, retention=HOUR_MS, version=4)
    world.advance(HOUR_MS - 1)
    assert world.fetch() == (5, "")
    world.advance(HOUR_MS)
    assert world.fetch() == (-1, "")


def test_offsets_can_be_deleted_unless_the_topic_is_subscribed_to() -> None:
    world = World()
    (one, _), generation = world.stable(2, topics=["t"])
    world.commit(5, member=one, generation=generation, topic="t")
    world.commit(6, member=one, generation=generation, topic="other")
    refused = world.delete_offset("t").response.topics[0].partitions[0]
    assert refused.error_code == Code.GROUP_SUBSCRIBED_TO_TOPIC
    assert world.delete_offset("other").response.topics[0].partitions[0].error_code == 0
    assert (world.fetch("t")[0], world.fetch("other")[0]) == (5, -1)
    assert world.delete_offset(group="none").code is Code.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_of_other_programs_stay_while_it_has_members() -> None:
    world = World()
    world.stable(2, kind="connect")
    assert world.delete_offset().code is Code.NON_EMPTY_GROUP


def test_a_deleted_group_takes_its_offsets_along() -> None:
    world = World()
    ids, generation = world.stable(2)
    world.commit(5, member=ids[0], generation=generation)
    assert world.delete() is Code.NON_EMPTY_GROUP
    world.leave(*ids)
    assert world.delete() is Code.NONE
    assert world.delete() is Code.GROUP_ID_NOT_FOUND
    assert world.fetch() == (-1, "")
    world.start()
    assert (world.fetch(), world.state()) == ((-1, ""), None)


def forget_topic(world: World, topic: str) -> None:
    for records in world.shard.offsets.of_topic(topic, 10):
        outcome = Outcome(tuple(records), divisible=True)
        world.deliver(world.runtime.carry_out(0, outcome, world.now))


def test_a_deleted_topic_leaves_no_offsets_behind() -> None:
    world = World()
    world.commit(5, topic="t")
    world.commit(6, topic="u")
    forget_topic(world, "t")
    assert (world.fetch("t")[0], world.fetch("u")[0]) == (-1, 6)


def test_a_group_with_more_offsets_than_a_batch_may_hold_can_be_deleted() -> None:
    world = World()
    group = "g" * 30_000
    for partition in range(60):
        world.commit(5, group=group, partition=partition)
    assert world.delete(group) is Code.NONE
    world.start()
    assert world.state(group) is None
    assert not world.shard.offsets.by_group


def test_offsets_of_a_deleted_topic_go_though_their_names_fill_many_batches() -> None:
    world = World()
    for number in range(60):
        world.commit(5, group=str(number) + "g" * 30_000)
    forget_topic(world, "t")
    assert not world.shard.offsets.by_group


def test_all_offsets_of_a_group_that_are_out_of_retention_go_soon() -> None:
    """A slice at a time, and not a slice per check."""
    world = World(GroupLimits(offsets_retention_ms=HOUR_MS))
    for partition in range(2_500):
        world.commit(5, partition=partition)
    world.advance(HOUR_MS + world.limits.offsets_retention_check_ms + 1_000)
    assert not world.shard.offsets.by_group
    assert world.state() is None


def test_retention_does_not_ask_a_log_that_refuses_over_and_over() -> None:
    world = World(GroupLimits(offsets_retention_ms=HOUR_MS))
    for partition in range(1_500):
        world.commit(5, partition=partition)
    world.journal.error = broken_disk()
    world.advance(2 * HOUR_MS + 60_000)
    due = world.runtime.next_deadline()
    assert due is not None
    assert due > world.ms + 1_000
    world.journal.error = None
    world.advance(HOUR_MS)
    assert not world.shard.offsets.by_group


def test_a_commit_that_the_log_refuses_is_not_acknowledged() -> None:
    world = World()
    world.commit(5)
    world.journal.error = broken_disk()
    assert world.commit_code(6) is Code.NOT_COORDINATOR
    assert world.fetch() == (5, "")


def test_a_commit_is_acknowledged_when_it_is_committed_and_not_before() -> None:
    world = World()
    world.journal.lagging = True
    call = world.commit(5)
    assert call.waits
    world.journal.high_watermark = world.journal.end
    world.deliver(world.runtime.watermark_moved(0))
    assert not call.waits


@pytest.mark.parametrize("epoch", [-1, 0, 7])
def test_the_leader_epoch_of_a_commit_comes_back(epoch: int) -> None:
    world = World()
    world.commit(5, epoch=epoch)
    world.start()
    value = world.shard.offsets.find("g", "t", 0)
    assert value is not None
    assert value.leader_epoch == epoch
