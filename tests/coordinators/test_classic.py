"""Membership of classic groups, told as transcripts."""

from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.model.errors import Code
from tests.coordinators.world import World, assignment, subscription


def test_a_new_member_is_given_an_id_and_joins_with_it() -> None:
    world = World()
    first = world.join(client="app")
    assert (first.code, first.response.member_id) == (Code.MEMBER_ID_REQUIRED, "app-1")
    second = world.join("app-1", client="app")
    assert second.waits
    world.advance(3_000)
    assert second.code is Code.NONE
    assert second.response.generation_id == 1
    assert second.response.leader == "app-1"
    assert [member.member_id for member in second.response.members] == ["app-1"]


def test_old_clients_join_in_one_step() -> None:
    world = World()
    join = world.join(version=3)
    world.advance(3_000)
    assert join.code is Code.NONE
    assert join.response.member_id == "c-1"


def test_the_first_rebalance_waits_longer_while_members_keep_coming() -> None:
    world = World()
    _, first = world.new(rebalance=10_000)
    world.advance(2_000)
    _, second = world.new(rebalance=10_000)
    world.advance(1_500)  # the first delay of 3 s is over, but somebody came meanwhile
    assert first.waits
    world.advance(2_500)
    assert first.response.generation_id == second.response.generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    world = World()
    _, first = world.new(rebalance=7_000)
    for _ in range(10):
        world.advance(1_000)
        world.new(rebalance=7_000)
        if not first.waits:
            break
    assert world.ms <= 9_000  # two whole delays, and what is left of seven seconds rounded up
    assert not first.waits


def test_without_an_initial_delay_the_first_member_gets_its_generation_at_once() -> None:
    world = World(GroupLimits(initial_rebalance_delay_ms=0))
    _, join = world.new()
    world.advance(0)
    assert join.response.generation_id == 1


ADAPTIVE = GroupLimits(initial_rebalance_delay_ms=3_000, initial_rebalance_pause_ms=100)


def test_a_lone_member_waits_for_a_tenth_of_a_second() -> None:
    world = World(ADAPTIVE)
    _, join = world.new()
    world.advance(99)
    assert join.waits
    world.advance(1)
    assert join.response.generation_id == 1


def test_a_hundred_members_that_start_together_come_together() -> None:
    """Each within a tenth of a second after the one before: one generation has them all."""
    world = World(ADAPTIVE)
    joins = []
    for _ in range(100):
        joins.append(world.new(rebalance=60_000)[1])
        world.advance(25)
    assert all(join.waits for join in joins)
    world.advance(75)
    assert {join.response.generation_id for join in joins} == {1}
    assert world.ms == 100 * 25 + 75, "a tenth of a second after the last one came"


def test_members_that_keep_coming_do_not_delay_the_first_rebalance_past_the_option() -> None:
    world = World(ADAPTIVE)
    _, first = world.new(rebalance=60_000)
    while first.waits:
        assert world.ms < 3_000
        world.advance(50)
        if first.waits:
            world.new(rebalance=60_000)
    assert first.response.generation_id == 1


def test_a_delay_shorter_than_the_pause_sets_no_limit() -> None:
    world = World(GroupLimits(initial_rebalance_delay_ms=100, initial_rebalance_pause_ms=100))
    _, first = world.new(rebalance=60_000)
    for _ in range(10):
        world.advance(50)
        assert first.waits
        world.new(rebalance=60_000)
    world.advance(100)
    assert first.response.generation_id == 1


def test_only_the_leader_hears_who_the_members_are() -> None:
    world = World()
    (one, first), (two, second) = world.new(), world.new()
    world.advance(9_000)
    assert first.response.leader == second.response.leader == one
    assert [member.member_id for member in first.response.members] == [one, two]
    assert second.response.members == []


def test_followers_wait_for_the_leaders_assignment() -> None:
    world = World()
    (one, _), (two, _) = world.new(), world.new()
    world.advance(9_000)
    follower = world.sync(two, 1)
    assert follower.waits
    assert world.state() == "CompletingRebalance"
    leader = world.sync(one, 1, {one: b"1", two: b"2"})
    assert (leader.response.assignment, follower.response.assignment) == (b"1", b"2")
    assert world.state() == "Stable"
    assert world.sync(two, 1).response.assignment == b"2"


def test_a_member_the_leader_forgot_gets_an_empty_assignment() -> None:
    world = World()
    (one, _), (two, _) = world.new(), world.new()
    world.advance(9_000)
    world.sync(one, 1, {one: b"1", "nobody": b"x"})
    follower = world.sync(two, 1)
    assert (follower.code, follower.response.assignment) == (Code.NONE, b"")


def test_a_newcomer_makes_everyone_rejoin() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    _, newcomer = world.new()
    assert world.heartbeat(one, generation) is Code.REBALANCE_IN_PROGRESS
    first = world.join(one)
    assert first.waits
    second = world.join(two)
    assert (first.response.generation_id, second.code, newcomer.code) == (2, Code.NONE, Code.NONE)


def test_a_member_that_does_not_rejoin_in_time_is_out() -> None:
    world = World()
    (one, two), generation = world.stable(2, session=1_000_000, rebalance=5_000)
    first = world.join(one, rebalance=5_000, session=1_000_000)
    assert world.heartbeat(two, generation) is Code.REBALANCE_IN_PROGRESS
    world.advance(5_000)
    assert [member.member_id for member in first.response.members] == [one]
    assert world.heartbeat(two, 2) is Code.UNKNOWN_MEMBER_ID


def test_a_member_that_stops_its_heartbeats_is_out_and_the_others_rejoin() -> None:
    world = World()
    (one, two), generation = world.stable(2, session=10_000)
    world.advance(9_000)
    assert world.heartbeat(one, generation) is Code.NONE
    world.advance(1_000)
    assert world.heartbeat(one, generation) is Code.REBALANCE_IN_PROGRESS
    assert world.heartbeat(two, generation) is Code.UNKNOWN_MEMBER_ID
    assert world.join(one).response.generation_id == generation + 1


def test_session_and_rebalance_timeouts_are_apart() -> None:
    """While it waits to join, a member need not heartbeat, however long the others take."""
    world = World()
    (one, two), generation = world.stable(2, session=6_000, rebalance=60_000)
    rejoined = world.join(one, session=6_000, rebalance=60_000)
    for _ in range(11):
        world.advance(5_000)
        assert world.heartbeat(two, generation) is Code.REBALANCE_IN_PROGRESS
    assert rejoined.waits
    world.join(two, session=6_000, rebalance=60_000)
    assert rejoined.response.generation_id == generation + 1


def test_a_leader_that_leaves_is_replaced_by_a_member() -> None:
    world = World()
    (one, two, three), _ = world.stable(3)
    assert world.leave(one).code is Code.NONE
    second, third = world.join(two), world.join(three)
    assert second.response.leader == third.response.leader == two


def test_a_leader_that_never_syncs_is_given_up() -> None:
    world = World()
    (_, _), (two, _) = (
        world.new(rebalance=20_000, session=1_000_000),
        world.new(rebalance=20_000, session=1_000_000),
    )
    world.advance(9_000)
    waiting = world.sync(two, 1)
    world.advance(20_000)
    assert waiting.code is Code.REBALANCE_IN_PROGRESS
    again = world.join(two, rebalance=20_000)
    assert (again.response.generation_id, again.response.leader) == (2, two)


def test_the_last_member_to_leave_empties_the_group() -> None:
    world = World()
    (one, two), _ = world.stable(2)
    assert world.leave(one, two).code is Code.NONE
    assert world.state() == "Empty"
    kept = world.shard.generations["g"]
    assert (kept.generation, kept.members, kept.protocol) == (2, [], None)


def test_leaving_says_for_each_member_whether_it_was_there() -> None:
    world = World()
    (one, _), _ = world.stable(2)
    answer = world.leave(one, "nobody").response
    assert [member.error_code for member in answer.members] == [0, Code.UNKNOWN_MEMBER_ID]
    assert world.leave("nobody", version=2).code is Code.UNKNOWN_MEMBER_ID


def test_a_member_with_only_an_id_may_leave_before_it_joins() -> None:
    world = World()
    (one, _), generation = world.stable(2)
    promised = world.join().response.member_id
    assert world.leave(promised).response.members[0].error_code == 0
    assert world.heartbeat(one, generation) is Code.NONE
    assert world.join(promised).code is Code.UNKNOWN_MEMBER_ID


def test_an_id_nobody_comes_back_with_expires_and_leaves_no_group() -> None:
    world = World()
    world.join(session=6_000)
    assert world.state() == "Empty"
    world.advance(6_000)
    assert world.state() is None


def test_the_protocol_with_most_votes_among_the_common_ones_wins() -> None:
    world = World()
    _, first = world.new(protocols=["sticky", "range", "roundrobin"])
    world.new(protocols=["roundrobin", "range"])
    world.new(protocols=["roundrobin", "range", "other"])
    world.advance(9_000)
    assert first.response.protocol_name == "roundrobin"


def test_a_member_with_no_protocol_in_common_is_refused() -> None:
    world = World()
    world.stable(2, protocols=["range"])
    assert world.join(protocols=["sticky"]).code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(kind="connect").code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocols=[]).code is Code.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_takes_any_protocol_type() -> None:
    world = World()
    ids, _ = world.stable(2)
    world.leave(*ids)
    _, join = world.new(kind="connect", protocols=["compatible"], metadata=b"\xff\xff\xff")
    world.advance(3_000)
    assert (join.response.protocol_type, join.response.protocol_name) == ("connect", "compatible")
    assert join.response.members[0].metadata == b"\xff\xff\xff"


def test_requests_of_another_generation_are_fenced() -> None:
    world = World()
    (one, _), generation = world.stable(2)
    assert world.heartbeat(one, generation - 1) is Code.ILLEGAL_GENERATION
    assert world.heartbeat(one, generation + 1) is Code.ILLEGAL_GENERATION
    assert world.sync(one, generation - 1).code is Code.ILLEGAL_GENERATION
    assert world.heartbeat("nobody", generation) is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(one, generation, group="other") is Code.UNKNOWN_MEMBER_ID


def test_a_sync_with_another_protocol_than_was_chosen_is_refused() -> None:
    world = World()
    (one, _), generation = world.stable(2)
    assert world.sync(one, generation, protocol="range", kind="consumer").code is Code.NONE
    wrong = Code.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(one, generation, protocol="sticky").code is wrong
    assert world.sync(one, generation, kind="connect").code is wrong


def test_a_rejoin_that_says_nothing_new_does_not_disturb_the_others() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    again = world.join(two)
    assert (again.response.generation_id, again.response.members) == (generation, [])
    assert world.heartbeat(one, generation) is Code.NONE


def test_a_rejoin_of_the_leader_starts_a_rebalance() -> None:
    """It is how a consumer tells that its topics have more partitions now."""
    world = World()
    (one, two), generation = world.stable(2)
    assert world.join(one).waits
    assert world.heartbeat(two, generation) is Code.REBALANCE_IN_PROGRESS


def test_a_changed_subscription_starts_a_rebalance() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    assert world.join(two, topics=["t", "u"]).waits
    assert world.heartbeat(one, generation) is Code.REBALANCE_IN_PROGRESS


def test_a_join_repeated_before_the_sync_gets_the_same_generation() -> None:
    world = World()
    (one, _), (two, _) = world.new(), world.new()
    world.advance(9_000)
    again = world.join(one)
    assert again.response.generation_id == 1
    assert [member.member_id for member in again.response.members] == [one, two]


def test_a_join_sent_again_while_the_first_waits_takes_its_place() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    first = world.join(one)
    second = world.join(one)
    assert first.code is Code.REBALANCE_IN_PROGRESS
    world.join(two)
    assert second.response.generation_id == generation + 1


def test_a_rebalance_during_the_sync_phase_sends_the_waiting_back() -> None:
    world = World()
    (_, _), (two, _) = world.new(), world.new()
    world.advance(9_000)
    waiting = world.sync(two, 1)
    world.new()
    assert waiting.code is Code.REBALANCE_IN_PROGRESS
    assert world.state() == "PreparingRebalance"


def test_the_group_takes_no_more_members_than_its_limit() -> None:
    world = World(GroupLimits(members_max=2))
    (one, two), _ = world.stable(2)
    assert world.join().code is Code.GROUP_MAX_SIZE_REACHED
    world.join(one)
    assert world.join().code is Code.MEMBER_ID_REQUIRED  # somebody may not come back
    assert world.join(two).waits  # the promised id is waited for
    assert world.join("c-5").code is Code.GROUP_MAX_SIZE_REACHED


def test_session_timeouts_outside_the_bounds_are_refused() -> None:
    world = World()
    assert world.join(session=5_999).code is Code.INVALID_SESSION_TIMEOUT
    assert world.join(session=1_800_001).code is Code.INVALID_SESSION_TIMEOUT
    assert world.join(group="").code is Code.INVALID_GROUP_ID


def test_metadata_that_no_log_record_could_hold_is_refused() -> None:
    world = World()
    assert world.join(metadata=bytes(10_000_000)).code is Code.INVALID_REQUEST
    assert world.state() is None


def test_undecodable_metadata_of_a_consumer_is_passed_on_as_it_is() -> None:
    world = World()
    _, join = world.new(metadata=b"\0\x01\xff\xff\xff")
    world.advance(3_000)
    assert join.response.members[0].metadata == b"\0\x01\xff\xff\xff"


def test_a_new_member_that_never_gets_its_answer_is_given_up() -> None:
    """A client that dies while it waits must not hold up the group for ever."""
    world = World(GroupLimits(new_member_join_ms=30_000))
    (one, two), generation = world.stable(2, session=1_000_000, rebalance=600_000)
    _, newcomer = world.new(rebalance=600_000)
    world.join(one, rebalance=600_000, session=1_000_000)
    world.advance(30_000)
    assert newcomer.code is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(two, generation) is Code.REBALANCE_IN_PROGRESS


def test_version_0_has_one_timeout_for_both() -> None:
    world = World()
    world.join(version=0, session=7_000, rebalance=-1)
    group = world.shard.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.members.rebalance_timeout_ms() == 7_000


def test_no_member_gets_an_assignment_before_the_log_has_it() -> None:
    world = World()
    (one, _), (two, _) = world.new(), world.new()
    world.advance(9_000)
    world.journal.lagging = True
    follower = world.sync(two, 1)
    leader = world.sync(one, 1, {one: assignment({"t": [0]}), two: b""})
    late = world.sync(two, 1)
    assert all(call.waits for call in (follower, leader, late))
    assert world.heartbeat(one, 1) is Code.NONE
    world.journal.high_watermark = world.journal.end
    world.deliver(world.runtime.watermark_moved(0))
    assert [call.code for call in (follower, leader, late)] == [Code.NONE] * 3


def test_metadata_survives_byte_for_byte() -> None:
    world = World()
    told = subscription(["a", "b"])
    ids, _ = world.stable(2, metadata=told)
    assert world.shard.generations["g"].members[0].subscription == told
    assert world.shard.generations["g"].members[0].member_id == ids[0]
