"""Consumer groups: heartbeats and their effects."""

import pytest

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.model.errors import Code
from tests.coordinators.consumer_groups import stored, told, two_members, world
from tests.coordinators.world import PARTITION, Cluster, World, broken_disk

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
    assert stored(w).epoch == 4
    w.advance(999)
    assert told(w, w.beat("b", 1)) == (1, None)
    w.advance(1)
    assert told(w, w.beat("b", 1)) == (4, None)
    assert stored(w).target_epoch == 4
    assert sorted(p for t in stored(w).targets.values() for ps in t.values() for p in ps) == [
        *range(4)
    ]


def test_a_fleet_that_starts_together_is_given_its_shares_together() -> None:
    w = world(consumer_join_pause_ms=100)
    first = w.enter("a")
    w.advance(80)
    second = w.enter("b")
    w.advance(80)
    assert first.waits  # b has come, so there may be more
    w.advance(20)
    assert told(w, first) == (3, [0, 1])
    assert told(w, second) == (3, [2, 3])
    assert w.state() == "Stable"


def test_a_member_that_joins_again_while_it_waits_is_answered_once() -> None:
    w = world(consumer_join_pause_ms=100)
    lost = w.enter("a")
    again = w.enter("a")
    assert lost.code is Code.COORDINATOR_NOT_AVAILABLE
    w.advance(100)
    assert told(w, again) == (2, [0, 1, 2, 3])


def test_a_member_that_goes_while_it_waits_is_answered() -> None:
    w = world(consumer_join_pause_ms=100)
    first, second = w.enter("a"), w.enter("b")
    w.beat("a", -1)
    assert first.code is Code.UNKNOWN_MEMBER_ID
    w.advance(1_000)
    assert told(w, second)[1] == [0, 1, 2, 3]


def test_a_member_that_waits_is_answered_when_its_coordinator_moves() -> None:
    w = world(consumer_join_pause_ms=100)
    first = w.enter("a")
    w.deliver(w.runtime.unload(PARTITION))
    assert first.code is Code.NOT_COORDINATOR


def test_a_member_that_waits_is_answered_when_the_log_does_not_take_its_target() -> None:
    w = world(consumer_join_pause_ms=100)
    first, second = w.enter("a"), w.enter("b")
    w.journal.error = broken_disk()
    w.advance(100)
    assert not first.waits
    assert not second.waits
    w.journal.error = None
    w.advance(1_000)
    shares = [told(w, w.enter(name))[1] for name in "ab"]
    assert shares == [[0, 1], [2, 3]]


def test_newcomers_cannot_put_off_the_first_shares_for_ever() -> None:
    w = world(consumer_join_pause_ms=100)
    for name in "abcdefghijklmnop":
        w.enter(name)
        w.advance(80)
    assert stored(w).target_epoch > 1


def test_a_member_that_waits_for_partitions_gets_a_short_heartbeat_interval() -> None:
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
    w = World(GroupLimits(consumer_assignment_interval_ms=0), topics=Cluster({"t": 3, "u": 3}))
    w.enter("a", ["t", "u"], assignor="range")
    w.enter("b", ["t", "u"], assignor="range")
    targets = [
        {w.topics.name_of(t): ps for t, ps in stored(w).targets[name].items()} for name in "ab"
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
    room = w.limits.memory
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


def test_a_full_heartbeat_gets_a_full_answer() -> None:
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
    assert list(stored(w).members) == ["a"]
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
    epoch = stored(w).epoch
    assert w.beat("a", -2, instance="i").response.member_epoch == -2
    w.advance(20_000)
    assert told(w, w.beat("b", 2)) == (2, [2, 3])
    assert told(w, w.enter("a2", instance="i")) == (2, [0, 1])
    assert stored(w).epoch == epoch
    assert "a" not in stored(w).members


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
