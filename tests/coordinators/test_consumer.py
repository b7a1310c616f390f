"""Groups of the new protocol: transcripts of heartbeats and what comes of them."""

import pytest

from barnabas.coordinators.groups.classic_speakers import MixedGroup
from barnabas.coordinators.groups.consumer_state import ConsumerState
from barnabas.coordinators.groups.limits import Limits
from barnabas.model.errors import Code
from tests.coordinators.world import GROUP, Call, Cluster, World, broken_disk, given


def world(partitions: int = 4, **limits: int | bool) -> World:
    return World(Limits(**limits), topics=Cluster({"t": partitions}))  # type: ignore[arg-type]


def kept(world: World) -> ConsumerState:
    group = world.shard.group(GROUP)
    assert isinstance(group, MixedGroup)
    return group.kept


def told(world: World, call: Call) -> tuple[int, list[int] | None]:
    """The epoch, and the partitions of t; None where nothing is said of them."""
    assert call.code is Code.NONE, call.response
    shares = given(call, world.topics)
    return call.response.member_epoch, None if shares is None else shares.get("t", [])


def two_members(world: World) -> None:
    """a and b, at epoch 2, with two partitions each."""
    assert told(world, world.enter("a")) == (1, [0, 1, 2, 3])
    world.advance(1_000)
    assert told(world, world.enter("b")) == (2, [])
    assert told(world, world.beat("a", 1)) == (1, [0, 1])
    assert told(world, world.beat("a", 1, owned={"t": [0, 1]})) == (2, None)
    assert told(world, world.beat("b", 2)) == (2, [2, 3])


# --- joining and sharing --------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once() -> None:
    w = world()
    assert told(w, w.enter("a")) == (1, [0, 1, 2, 3])
    assert w.state() == "Stable"
    assert told(w, w.beat("a", 1)) == (1, None)


def test_what_moves_is_given_up_before_it_is_given() -> None:
    w = world()
    w.enter("a")
    w.advance(1_000)
    joined = w.enter("b")
    assert told(w, joined) == (2, [])
    assert w.state() == "Reconciling"
    assert told(w, w.beat("a", 1)) == (1, [0, 1])  # the epoch moves when the rest is given up
    assert told(w, w.beat("b", 2)) == (2, None)
    assert told(w, w.beat("a", 1, owned={"t": [0, 1, 2]})) == (1, None)  # not all of it yet
    assert told(w, w.beat("b", 2)) == (2, None)
    assert told(w, w.beat("a", 1, owned={"t": [0, 1]})) == (2, None)
    assert told(w, w.beat("b", 2)) == (2, [2, 3])
    assert w.state() == "Stable"


def test_members_that_come_together_are_given_their_shares_together() -> None:
    w = world()
    w.enter("a")
    for name in "bcd":
        assert told(w, w.enter(name)) == (1, [])
    assert w.state() == "Assigning"
    assert kept(w).epoch == 4
    w.advance(999)
    assert told(w, w.beat("b", 1)) == (1, None)
    w.advance(1)
    assert told(w, w.beat("b", 1)) == (4, None)
    assert kept(w).target_epoch == 4
    assert sorted(p for t in kept(w).targets.values() for ps in t.values() for p in ps) == [
        *range(4)
    ]


def test_a_fleet_that_starts_together_is_given_its_shares_together() -> None:
    w = world(consumer_lull_ms=100)
    first = w.enter("a")
    assert told(w, first) == (1, [])
    assert first.response.heartbeat_interval_ms == 100
    w.advance(80)
    assert told(w, w.enter("b")) == (1, [])
    w.advance(80)
    assert told(w, w.beat("a", 1)) == (1, None)  # b has come, so there may be more
    w.advance(20)
    assert told(w, w.beat("a", 1)) == (3, [0, 1])
    assert told(w, w.beat("b", 1)) == (3, [2, 3])
    assert w.state() == "Stable"


def test_newcomers_cannot_put_off_the_first_shares_for_ever() -> None:
    w = world(consumer_lull_ms=100)
    for name in "abcdefghijklmnop":
        w.enter(name)
        w.advance(80)
    assert kept(w).target_epoch > 1


def test_whoever_has_something_to_wait_for_is_asked_to_come_back_soon() -> None:
    w = world()
    assert w.enter("a").response.heartbeat_interval_ms == 5_000
    w.advance(400)
    assert w.enter("b").response.heartbeat_interval_ms == 600  # until targets may be made again
    w.advance(600)
    assert w.beat("b", 1).response.heartbeat_interval_ms == 200  # until a has given up its share
    assert w.beat("a", 1).response.heartbeat_interval_ms == 5_000
    w.beat("a", 1, owned={"t": [0, 1]})
    assert w.beat("b", 2).response.heartbeat_interval_ms == 5_000


def test_a_clock_that_is_turned_back_holds_nobody_up() -> None:
    w = world()
    w.advance(10_000)
    w.enter("a")
    w.ms -= 5_000
    assert told(w, w.enter("b"))[0] == 2


def test_range_and_uniform_as_most_members_ask() -> None:
    w = World(Limits(consumer_assignment_interval_ms=0), topics=Cluster({"t": 3, "u": 3}))
    w.enter("a", ["t", "u"], assignor="range")
    w.enter("b", ["t", "u"], assignor="range")
    targets = [
        {w.topics.name_of(t): ps for t, ps in kept(w).targets[name].items()} for name in "ab"
    ]
    assert targets == [{"t": (0, 1), "u": (0, 1)}, {"t": (2,), "u": (2,)}]


def test_an_assignor_that_is_not_there_is_refused() -> None:
    w = world()
    refused = w.enter("a", assignor="magic")
    assert refused.code is Code.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in refused.response.error_message
    assert w.state() is None


def test_a_member_without_an_id_is_given_one_in_version_0() -> None:
    w = world()
    assert w.enter("", version=0).response.member_id
    assert w.enter("", version=1).code is Code.INVALID_REQUEST


@pytest.mark.parametrize(
    "options",
    [
        {"rebalance": -1},
        {"owned": {"t": [0]}},
        {"owned": None},
        {"topics": None},
        {"instance": " "},
        {"rack": ""},
        {"group": ""},
        {"epoch": -3},
        {"epoch": -2},
    ],
)
def test_a_join_that_says_too_little_is_refused(options: dict[str, object]) -> None:
    w = world()
    asked: dict[str, object] = {"epoch": 0, "owned": {}, "topics": ["t"], "rebalance": 9} | options
    assert w.beat("a", **asked).code is Code.INVALID_REQUEST  # type: ignore[arg-type]


def test_a_heartbeat_from_nowhere() -> None:
    w = world()
    assert w.beat("a", 5).code is Code.GROUP_ID_NOT_FOUND
    w.enter("a")
    assert w.beat("b", 5).code is Code.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_in() -> None:
    w = world(consumer_members_max=1)
    w.enter("a")
    assert w.enter("b").code is Code.GROUP_MAX_SIZE_REACHED
    assert told(w, w.enter("a"))[1] == [0, 1, 2, 3]


def test_what_members_bring_is_bounded_for_all_groups_together() -> None:
    w = world()
    room = w.limits.room
    room.bytes_max = 10_000
    for number in range(3):
        assert w.enter(f"m{number}", group=f"g{number}").code is Code.NONE
    assert w.enter("m", ["t" * 5_000]).code is Code.COORDINATOR_NOT_AVAILABLE
    w.beat("m0", -1, group="g0")
    w.beat("m1", -1, group="g1")
    assert w.enter("m", ["t" * 5_000]).code is Code.NONE
    w.beat("m", -1)
    w.beat("m2", -1, group="g2")
    assert room.used == 0


def test_a_member_that_says_everything_hears_everything() -> None:
    w = world()
    w.enter("a")
    again = w.beat("a", 1, owned={"t": [0, 1, 2, 3]}, topics=["t"], rebalance=60_000)
    assert told(w, again) == (1, [0, 1, 2, 3])


# --- epochs ---------------------------------------------------------------------------------------


def test_a_member_that_missed_an_answer_is_one_epoch_behind_and_may_be() -> None:
    w = world()
    w.enter("a")
    w.advance(1_000)
    w.enter("b")
    w.beat("a", 1)
    w.beat("a", 1, owned={"t": [0, 1]})  # moves a to 2; let the answer be lost
    assert told(w, w.beat("a", 1, owned={"t": [0, 1]}))[0] == 2
    assert w.beat("a", 1, owned={"t": [0, 1, 2]}).code is Code.FENCED_MEMBER_EPOCH
    assert w.beat("a", 1).code is Code.FENCED_MEMBER_EPOCH
    assert w.beat("a", 3).code is Code.FENCED_MEMBER_EPOCH


def test_a_fenced_member_rejoins_and_gets_what_is_its_own() -> None:
    w = world()
    two_members(w)
    assert told(w, w.enter("a")) == (2, [0, 1])


def test_a_silent_member_goes_after_its_session() -> None:
    w = world()
    two_members(w)
    w.advance(44_000)
    w.beat("a", 2)
    w.advance(1_000)
    assert list(kept(w).members) == ["a"]
    assert told(w, w.beat("a", 2)) == (3, [0, 1, 2, 3])
    assert w.beat("b", 2).code is Code.UNKNOWN_MEMBER_ID


def test_a_member_that_holds_on_goes_after_its_rebalance_timeout() -> None:
    w = world()
    w.enter("a", rebalance=10_000)
    w.advance(1_000)
    w.enter("b")
    w.beat("a", 1)
    for _ in range(9):
        w.advance(1_000)
        assert told(w, w.beat("a", 1)) == (1, None)
        w.beat("b", 2)
    w.advance(1_000)
    assert w.beat("a", 1).code is Code.UNKNOWN_MEMBER_ID
    assert told(w, w.beat("b", 2)) == (3, [0, 1, 2, 3])


def test_giving_up_in_time_ends_the_wait() -> None:
    w = world()
    w.enter("a", rebalance=10_000)
    w.advance(1_000)
    w.enter("b")
    w.beat("a", 1)
    w.beat("a", 1, owned={"t": [0, 1]})
    w.advance(11_000)
    assert told(w, w.beat("a", 2)) == (2, None)


def test_a_member_that_leaves_is_gone_at_once() -> None:
    w = world()
    two_members(w)
    left = w.beat("b", -1)
    assert left.code is Code.NONE
    assert left.response.member_epoch == -1
    w.advance(1_000)
    assert told(w, w.beat("a", 2)) == (3, [0, 1, 2, 3])
    assert w.beat("b", -1).code is Code.UNKNOWN_MEMBER_ID
    w.beat("a", -1)
    assert w.state() == "Empty"


# --- static members -------------------------------------------------------------------------------


def test_a_static_member_that_is_back_in_time_moves_nothing() -> None:
    w = world()
    w.enter("a", instance="i")
    w.advance(1_000)
    w.enter("b")
    w.beat("a", 1, instance="i")
    w.beat("a", 1, owned={"t": [0, 1]}, instance="i")
    epoch = kept(w).epoch
    assert w.beat("a", -2, instance="i").response.member_epoch == -2
    w.advance(20_000)
    assert told(w, w.beat("b", 2)) == (2, [2, 3])
    assert told(w, w.enter("a2", instance="i")) == (2, [0, 1])
    assert kept(w).epoch == epoch
    assert "a" not in kept(w).members


def test_a_static_member_that_stays_away_is_given_up() -> None:
    w = world()
    w.enter("a", instance="i")
    w.beat("a", -2, instance="i")
    w.advance(45_000)
    assert w.state() == "Empty"


def test_an_instance_id_belongs_to_one_member_at_a_time() -> None:
    w = world()
    w.enter("a", instance="i")
    assert w.enter("b", instance="i").code is Code.UNRELEASED_INSTANCE_ID
    w.beat("a", -2, instance="i")
    w.enter("b", instance="i")
    assert w.beat("a", 1, instance="i").code is Code.FENCED_INSTANCE_ID
    assert w.beat("a", -1, instance="i").code is Code.FENCED_INSTANCE_ID


def test_a_static_member_may_leave_for_good() -> None:
    w = world()
    w.enter("a", instance="i")
    w.beat("a", -1, instance="i")
    assert told(w, w.enter("b", instance="i")) == (3, [0, 1, 2, 3])


# --- topics ---------------------------------------------------------------------------------------


def test_partitions_that_are_added_are_shared_out() -> None:
    w = world()
    two_members(w)
    w.advance(1_000)
    w.topics.grow("t", 6)
    w.topics_changed("t")
    shares = [told(w, w.beat(name, 2))[1] for name in "ab"]
    assert sorted(p for share in shares for p in share or []) == [0, 1, 2, 3, 4, 5]
    assert kept(w).epoch == 3


def test_topics_of_others_change_nothing() -> None:
    w = world()
    two_members(w)
    w.topics.create("other", 3)
    w.topics_changed("other")
    assert told(w, w.beat("a", 2)) == (2, None)
    assert kept(w).epoch == 2


def test_a_deleted_topic_is_given_up_and_its_namesake_is_another() -> None:
    w = world()
    w.enter("a")
    w.advance(1_000)
    w.topics.delete("t")
    w.topics_changed("t")
    assert told(w, w.beat("a", 1)) == (1, [])
    assert told(w, w.beat("a", 1, owned={})) == (2, None)
    w.topics.create("t", 2)
    w.topics_changed("t")
    w.advance(1_000)
    assert told(w, w.beat("a", 2)) == (3, [0, 1])


def test_what_is_unsubscribed_from_goes_before_the_next_target() -> None:
    w = World(topics=Cluster({"t": 2, "u": 2}))
    w.enter("a", ["t", "u"])
    gone = w.beat("a", 1, topics=["t"])
    assert given(gone, w.topics) == {"t": [0, 1]}
    assert gone.response.member_epoch == 1
    w.advance(1_000)
    assert w.beat("a", 1, owned={"t": [0, 1]}).response.member_epoch == 2


# --- patterns -------------------------------------------------------------------------------------


def test_a_pattern_follows_the_topics() -> None:
    w = World(topics=Cluster({"logs-a": 1, "logs-b": 1, "other": 1}))
    assert given(w.enter("a", [], regex="logs-.*"), w.topics) == {"logs-a": [0], "logs-b": [0]}
    assert kept(w).regexes == {"logs-.*": ("logs-a", "logs-b")}
    w.advance(1_000)
    w.topics.create("logs-c", 1)
    w.topics_changed("logs-c")
    assert given(w.beat("a", 1), w.topics) == {"logs-a": [0], "logs-b": [0], "logs-c": [0]}
    w.advance(1_000)
    assert given(w.beat("a", 2, topics=["other"], regex=""), w.topics) == {}
    assert kept(w).regexes == {}


def test_a_pattern_goes_with_the_last_who_had_it() -> None:
    w = World(topics=Cluster({"logs": 2}))
    w.enter("a", [], regex="l.*")
    w.enter("b", [], regex="l.*")
    w.beat("a", -1)
    assert kept(w).regexes
    w.beat("b", -1)
    assert not kept(w).regexes


def test_a_pattern_that_cannot_be_read_is_refused_and_changes_nothing() -> None:
    w = world()
    refused = w.enter("a", regex="(")
    assert refused.code is Code.INVALID_REGULAR_EXPRESSION
    assert w.state() is None


# --- commits --------------------------------------------------------------------------------------


def test_commits_carry_the_epoch_of_their_member() -> None:
    w = world()
    two_members(w)
    assert w.commit_code(5, member="a", generation=2) is Code.NONE
    assert w.commit_code(5, member="b", generation=2) is Code.NONE  # it may commit anything
    assert w.commit_code(5, member="a", generation=3) is Code.STALE_MEMBER_EPOCH
    assert w.commit_code(5, member="x", generation=2) is Code.UNKNOWN_MEMBER_ID
    assert w.commit_code(5, generation=-1) is Code.UNKNOWN_MEMBER_ID
    assert w.commit_code(5, member="a", generation=2, version=8) is Code.UNSUPPORTED_VERSION
    assert w.commit_code(5, member="a", generation=2, group="x") is Code.GROUP_ID_NOT_FOUND


def test_an_older_epoch_may_commit_what_it_already_had() -> None:
    w = world()
    two_members(w)
    assert w.commit_code(7, member="a", generation=1, partition=0) is Code.NONE
    assert w.commit_code(7, member="a", generation=1, partition=2) is Code.STALE_MEMBER_EPOCH
    assert w.commit_code(7, member="b", generation=1, partition=2) is Code.STALE_MEMBER_EPOCH


def test_offsets_are_told_to_members_of_the_right_epoch_and_to_strangers() -> None:
    w = world()
    w.enter("a")
    check = w.shard.check_fetch
    assert check(GROUP, None, -1) is Code.NONE
    assert check(GROUP, "a", 1) is Code.NONE
    assert check(GROUP, "a", 0) is Code.STALE_MEMBER_EPOCH
    assert check(GROUP, "b", 1) is Code.UNKNOWN_MEMBER_ID
    assert check("nothing", "b", 1) is Code.NONE


# --- the group as such ----------------------------------------------------------------------------


def test_a_group_with_members_is_not_deleted_an_empty_one_leaves_nothing() -> None:
    w = world()
    w.enter("a")
    w.commit(3, member="a", generation=1)
    assert w.delete() is Code.NON_EMPTY_GROUP
    w.beat("a", -1)
    assert w.delete() is Code.NONE
    assert w.state() is None
    w.start()
    assert w.state() is None
    assert not w.shard.consumers


def test_an_empty_group_out_of_retention_leaves_nothing() -> None:
    w = world()
    w.enter("a")
    w.commit(3, member="a", generation=1)
    w.beat("a", -1)
    w.advance(8 * 24 * 3_600_000)
    assert w.state() is None
    assert w.fetch()[0] == -1


def test_offsets_of_what_is_subscribed_to_stay() -> None:
    w = world(consumer_session_timeout_ms=2**31)
    w.enter("a")
    w.commit(3, member="a", generation=1)
    w.commit(3, member="a", generation=1, topic="u")
    w.advance(8 * 24 * 3_600_000)
    assert w.fetch("t")[0] == 3
    assert w.fetch("u")[0] == -1


def test_a_restart_finds_everybody_where_they_were() -> None:
    w = world()
    two_members(w)
    before = w.shard.consumers
    w.start()
    assert w.shard.consumers == before
    assert told(w, w.beat("a", 2)) == (2, None)
    w.advance(44_000)
    w.beat("a", 2)
    w.advance(1_000)  # b has not been heard since the restart
    assert list(kept(w).members) == ["a"]


def test_a_restart_between_giving_up_and_saying_so() -> None:
    w = world()
    w.enter("a", rebalance=10_000)
    w.advance(1_000)
    w.enter("b")
    w.beat("a", 1)
    w.start()
    assert told(w, w.beat("b", 2)) == (2, None)
    w.advance(10_000)  # the rebalance timeout counts from the restart
    assert w.beat("a", 1).code is Code.UNKNOWN_MEMBER_ID
    assert told(w, w.beat("b", 2)) == (3, [0, 1, 2, 3])


def test_what_the_log_does_not_take_has_not_happened() -> None:
    w = world()
    two_members(w)
    w.advance(1_000)
    w.journal.error = broken_disk()
    assert w.enter("c").code is Code.NOT_COORDINATOR
    assert w.beat("b", -1).code is Code.NOT_COORDINATOR
    w.journal.error = None
    assert list(kept(w).members) == ["a", "b"]
    assert told(w, w.beat("b", 2)) == (2, None)
    w.topics.grow("t", 5)
    w.topics_changed("t")
    w.journal.error = broken_disk()
    w.beat("a", 2)
    w.journal.error = None
    w.beat("a", 2)
    assert kept(w).epoch == 3


def test_an_answer_waits_until_its_records_are_committed() -> None:
    w = world()
    w.journal.lagging = True
    joined = w.enter("a")
    assert joined.waits
    w.journal.high_watermark = w.journal.end
    w.deliver(w.runtime.watermark_moved(0))
    assert told(w, joined) == (1, [0, 1, 2, 3])


def test_a_heartbeat_with_nothing_new_writes_nothing() -> None:
    w = world()
    two_members(w)
    written = len(w.journal.batches)
    for _ in range(10):
        w.beat("a", 2)
        w.beat("b", 2, owned={"t": [2, 3]})
    assert len(w.journal.batches) == written


def test_the_story_of_a_group() -> None:
    w = world()
    w.enter("a", client="one")
    w.advance(1_000)
    w.enter("b", client="two")
    w.beat("a", 1, client="one")
    w.advance(300)
    w.beat("a", 1, owned={"t": [0, 1]}, client="one")
    w.advance(100)
    w.beat("b", 2, client="two")
    group = w.shard.group(GROUP)
    assert group is not None
    first, second = group.story.chapters
    assert [cause.kind.name for cause in first.causes + second.causes] == ["JOINED", "JOINED"]
    assert (second.generation, second.members, second.sync_ms) == (2, 2, 400)
    assert second.last is not None
    assert second.last.client == "one"  # for whom two had to wait
    moves = second.moves()
    assert moves is not None
    assert [(m.partition.partition, m.before, m.after) for m in moves] == [
        (2, "a", "b"),
        (3, "a", "b"),
    ]
