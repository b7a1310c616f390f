"""Groups that change their protocol while they live."""

from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.subscription import partitions_of
from barnabas.model.errors import Code
from tests.coordinators.world import (
    GROUP,
    Call,
    Cluster,
    World,
    assignment,
    broken_disk,
    given,
    subscription,
)


def world(**limits: int | bool) -> World:
    limits.setdefault("initial_rebalance_delay_ms", 0)
    limits.setdefault("consumer_assignment_interval_ms", 0)
    return World(GroupLimits(**limits), topics=Cluster({"t": 4}))  # type: ignore[arg-type]


def classic(w: World) -> tuple[str, int]:
    """A classic group of one member that has all of t."""
    member, joined = w.new()
    w.advance(0)
    generation = joined.response.generation_id
    w.sync(member, generation, {member: assignment({"t": [0, 1, 2, 3]})})
    return member, generation


def mixed(w: World) -> tuple[str, int]:
    """A classic member with half of t beside a new one; its epoch is that of the group."""
    member, generation = classic(w)
    w.enter("n")
    assert w.heartbeat(member, generation) is Code.REBALANCE_IN_PROGRESS
    joined = rejoin(w, member, {"t": [0, 1, 2, 3]})
    synced = w.sync(member, joined.response.generation_id)
    kept = shares(synced)
    joined = rejoin(w, member, {"t": kept})
    epoch = joined.response.generation_id
    assert shares(w.sync(member, epoch)) == kept
    w.beat("n", epoch)
    assert w.state() == "Stable"
    return member, epoch


def rejoin(w: World, member: str, owned: dict[str, list[int]]) -> Call:
    return w.join(member, metadata=subscription(["t"], owned))


def shares(call: Call) -> list[int]:
    assert call.code is Code.NONE, call.response
    partitions = partitions_of(call.response.assignment)
    assert partitions is not None
    return [index for _, index in partitions]


def group(w: World) -> ClassicGroup | ConsumerGroup:
    found = w.shard.group(GROUP)
    assert isinstance(found, ClassicGroup | ConsumerGroup)
    return found


def test_the_first_new_member_turns_the_group() -> None:
    w = world()
    member, generation = classic(w)
    w.enter("n")
    found = group(w)
    assert isinstance(found, ConsumerGroup)
    assert GROUP not in w.shard.generations
    assert found.stored.epoch == generation + 1
    assert found.stored.members[member].classic is not None
    w.start()
    assert isinstance(group(w), ConsumerGroup)


def test_a_classic_member_gives_up_first_and_fetches_its_share() -> None:
    w = world()
    member, generation = classic(w)
    new = w.enter("n")
    assert given(new, w.topics) == {}
    assert w.heartbeat(member, generation) is Code.REBALANCE_IN_PROGRESS
    joined = rejoin(w, member, {"t": [0, 1, 2, 3]})
    assert joined.response.leader == ""
    assert joined.response.protocol_name == "range"
    epoch = joined.response.generation_id
    kept = shares(w.sync(member, epoch))
    assert len(kept) == 2
    assert given(w.beat("n", 2), w.topics) is None
    assert w.heartbeat(member, epoch) is Code.REBALANCE_IN_PROGRESS  # it still owns the rest
    epoch = rejoin(w, member, {"t": kept}).response.generation_id
    assert epoch == 2
    assert shares(w.sync(member, epoch)) == kept
    assert w.heartbeat(member, epoch) is Code.NONE
    rest = given(w.beat("n", 2), w.topics)
    assert rest is not None
    assert sorted(kept + rest["t"]) == [0, 1, 2, 3]


def test_waiting_members_of_the_classic_group_must_rejoin() -> None:
    w = world(initial_rebalance_delay_ms=3_000)
    _, waiting = w.new()
    assert waiting.waits
    w.enter("n")
    assert waiting.code is Code.REBALANCE_IN_PROGRESS


def test_a_rebalance_under_way_goes_on_under_the_new_protocol() -> None:
    w = world(initial_rebalance_delay_ms=3_000)
    w.join(instance="i")
    assert given(w.enter("n", instance="i"), w.topics) == {"t": [0, 1, 2, 3]}


def test_the_last_new_member_turns_the_group_back() -> None:
    w = world()
    member, epoch = mixed(w)
    w.beat("n", -1)
    found = group(w)
    assert isinstance(found, ClassicGroup)
    assert GROUP not in w.shard.consumers
    assert w.heartbeat(member, epoch) is Code.REBALANCE_IN_PROGRESS
    joined = w.join(member)
    assert joined.response.generation_id == epoch + 1
    assert joined.response.leader == member


def test_a_new_member_that_dies_turns_it_back_too() -> None:
    w = world(consumer_session_timeout_ms=8_000)
    member, epoch = mixed(w)
    w.advance(7_000)
    w.heartbeat(member, epoch)
    w.advance(1_000)
    assert isinstance(group(w), ClassicGroup)


def test_a_stalled_member_whose_group_was_turned_back_may_turn_it_again() -> None:
    """Told that there is no such group, clients would give up for good."""
    w = world(consumer_session_timeout_ms=8_000)
    member, epoch = mixed(w)
    w.advance(7_000)
    w.heartbeat(member, epoch)
    w.advance(1_000)
    assert w.beat("n", epoch).code is Code.UNKNOWN_MEMBER_ID
    assert w.enter("n").code is Code.NONE
    assert isinstance(group(w), ConsumerGroup)


def test_a_classic_member_that_takes_the_place_of_the_last_new_one() -> None:
    w = world()
    member, _ = classic(w)
    w.enter("n", instance="i")
    taken = w.join(instance="i")
    assert isinstance(group(w), ClassicGroup)
    joined = w.join(member)
    assert joined.code is Code.NONE
    assert taken.code is Code.NONE
    assert taken.response.generation_id == joined.response.generation_id


def test_a_group_that_is_not_of_consumers_stays_what_it_is() -> None:
    w = world()
    w.new(kind="connect", metadata=b"opaque")
    w.advance(0)
    assert w.enter("n").code is Code.GROUP_ID_NOT_FOUND
    assert isinstance(group(w), ClassicGroup)


def test_an_assignor_with_data_of_its_own_cannot_be_left_behind() -> None:
    w = world()
    owned = assignment({"t": [0]})[:-4] + b"\0\0\0\1x"
    for protocol, code in (("special", Code.GROUP_ID_NOT_FOUND), ("sticky", Code.NONE)):
        member, joined = w.new(group=protocol, protocols=[protocol])
        w.advance(0)
        w.sync(member, joined.response.generation_id, {member: owned}, group=protocol)
        assert w.enter("n", group=protocol).code is code


def test_the_policy_decides() -> None:
    w = world(consumer_upgrade=False)
    classic(w)
    assert w.enter("n").code is Code.GROUP_ID_NOT_FOUND
    w = world(consumer_downgrade=False)
    mixed(w)
    w.beat("n", -1)
    assert isinstance(group(w), ConsumerGroup)


def test_without_a_way_back_the_classic_members_go_on_among_themselves() -> None:
    w = world(consumer_downgrade=False)
    member, epoch = mixed(w)
    w.beat("n", -1)
    assert w.heartbeat(member, epoch) is Code.NONE  # and makes new targets
    assert w.heartbeat(member, epoch) is Code.REBALANCE_IN_PROGRESS
    epoch = rejoin(w, member, {}).response.generation_id
    assert shares(w.sync(member, epoch)) == [0, 1, 2, 3]


def test_an_empty_group_is_whatever_comes_next() -> None:
    w = world()
    member, _ = classic(w)
    w.leave(member)
    assert given(w.enter("n"), w.topics) == {"t": [0, 1, 2, 3]}
    w.beat("n", -1)
    epoch = w.shard.consumers[GROUP].epoch
    _, joined = w.new()
    w.advance(0)
    assert joined.response.generation_id == epoch + 1
    assert GROUP not in w.shard.consumers


def test_offsets_stay_through_all_of_it() -> None:
    w = world()
    member, generation = classic(w)
    w.commit(7, member=member, generation=generation)
    w.enter("n")
    assert w.fetch()[0] == 7
    assert w.commit_code(8, member=member, generation=generation) is Code.NONE
    assert w.commit_code(9, member=member, generation=0) is Code.ILLEGAL_GENERATION


def test_a_classic_member_in_a_new_group_is_watched() -> None:
    w = world()
    member, epoch = mixed(w)
    w.topics.grow("t", 5)
    w.topics_changed("t")
    w.beat("n", epoch)
    assert w.heartbeat(member, epoch) is Code.REBALANCE_IN_PROGRESS
    for _ in range(12):  # alive, but it does not rejoin within its rebalance timeout
        w.advance(5_000)
        w.beat("n", epoch + 1)
        w.heartbeat(member, epoch)
    assert member not in w.shard.consumers[GROUP].members


def test_what_classic_members_are_refused_in_a_new_group() -> None:
    w = world()
    member, epoch = mixed(w)
    assert w.heartbeat(member, epoch - 1) is Code.ILLEGAL_GENERATION
    assert w.heartbeat("n", epoch) is Code.UNKNOWN_MEMBER_ID
    assert w.sync(member, epoch, kind="connect").code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert w.join(kind="connect").code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert w.join(protocols=["other"]).code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert w.join(metadata=b"\0").code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert w.join("x", instance="i").code is Code.UNKNOWN_MEMBER_ID
    assert [m.error_code for m in w.leave("nobody").response.members] == [Code.UNKNOWN_MEMBER_ID]


def test_a_change_that_the_log_does_not_take_has_not_happened() -> None:
    w = world()
    member, generation = classic(w)
    w.journal.error = broken_disk()
    assert w.enter("n").code is Code.NOT_COORDINATOR
    w.journal.error = None
    assert isinstance(group(w), ClassicGroup)
    assert w.heartbeat(member, generation) is Code.NONE
    w.enter("n")
    w.journal.error = broken_disk()
    assert w.beat("n", -1).code is Code.NOT_COORDINATOR
    w.journal.error = None
    assert isinstance(group(w), ConsumerGroup)
    assert w.beat("n", 2).code is Code.NONE


def test_a_classic_member_that_rejoins_in_a_new_group_has_not_changed_its_subscription() -> None:
    w = world()
    member, epoch = mixed(w)
    w.enter("m")
    assert w.heartbeat(member, epoch) is Code.REBALANCE_IN_PROGRESS
    rejoin(w, member, {"t": []})
    entry = group(w).history.current
    assert entry is not None
    assert [(cause.kind.name, cause.member) for cause in entry.causes] == [("JOINED", "m")]
