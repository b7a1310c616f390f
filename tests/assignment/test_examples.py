"""Each assignor in small groups, where a person can see what is right."""

import pytest

from barnabas.assignment import (
    AssignableTopic,
    Assignment,
    GroupSubscriber,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_server_range,
    assign_sticky,
    assign_uniform,
)
from barnabas.model.ids import TopicPartition
from tests.assignment.groups import ASSIGNORS, claiming


def partitions(text: str) -> list[TopicPartition]:
    """`"a0 a1 b0"`"""
    return [TopicPartition(word[0], int(word[1:])) for word in text.split()]


def member(member_id: str, topics: str, owned: str = "", generation: int = 1) -> GroupSubscriber:
    return claiming(GroupSubscriber(member_id, tuple(topics)), partitions(owned), generation)


def shown(assignment: Assignment) -> dict[str, str]:
    return {
        member_id: " ".join(f"{topic}{partition}" for topic, partition in given)
        for member_id, given in sorted(assignment.items())
    }


def racks(*of_partitions: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(each) for each in of_partitions)


def of(counts: str) -> dict[str, AssignableTopic]:
    """`"a3 b2"`: topic a with three partitions, topic b with two."""
    return {word[0]: AssignableTopic(int(word[1:])) for word in counts.split()}


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_group_of_nobody_gets_nothing(assignor: str) -> None:
    assert ASSIGNORS[assignor]([], of("a3")) == {}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_topic_that_does_not_exist_is_passed_over(assignor: str) -> None:
    given = ASSIGNORS[assignor]([member("m", "ax")], of("a2"))
    assert shown(given) == {"m": "a0 a1"}
    assert ASSIGNORS[assignor]([member("m", "x")], {}) == {"m": []}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_beyond_the_partitions_go_empty(assignor: str) -> None:
    given = ASSIGNORS[assignor]([member(name, "a") for name in "lmno"], of("a2"))
    assert sorted(len(share) for share in given.values()) == [0, 0, 1, 1]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_member_that_wants_nothing_gets_nothing(assignor: str) -> None:
    """The one that comes first in Java's order: Kafka's sticky ones would give it a share."""
    for names in ("mn", "nm"):
        given = ASSIGNORS[assignor]([member(names[0], ""), member(names[1], "a")], of("a4"))
        assert given[names[0]] == []
        assert len(given[names[1]]) == 4


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_partition_that_is_gone_is_not_given(assignor: str) -> None:
    """The topic was deleted and made again with fewer partitions."""
    members = [member("m", "a", "a0 a1 a5"), member("n", "a", "a2 a3 a4")]
    given = ASSIGNORS[assignor](members, of("a3"))
    assert sorted(p for share in given.values() for p in share) == partitions("a0 a1 a2")


# --- range ----------------------------------------------------------------------------------------


def test_range_cuts_each_topic_into_ranges() -> None:
    given = assign_range([member("n", "ab"), member("m", "ab")], of("a3 b3"))
    assert shown(given) == {"m": "a0 a1 b0 b1", "n": "a2 b2"}


def test_range_cuts_a_topic_among_its_subscribers_only() -> None:
    members = [member("l", "a"), member("m", "ab"), member("n", "b")]
    assert shown(assign_range(members, of("a2 b2"))) == {"l": "a0", "m": "a1 b0", "n": "b1"}


@pytest.mark.parametrize("assignor", [assign_range, assign_round_robin, assign_server_range])
def test_static_members_stand_where_they_stood(assignor: object) -> None:
    """By instance id and before all others, so that a new member id changes nothing."""
    assert callable(assignor)
    dynamic = GroupSubscriber("a", ("t",))
    first, second = GroupSubscriber("z", ("t",), "i1"), GroupSubscriber("y", ("t",), "i2")
    assert shown(assignor([dynamic, second, first], of("t3"))) == {"a": "t2", "y": "t1", "z": "t0"}


def test_range_prefers_near_replicas() -> None:
    topics = {"a": AssignableTopic(3, racks=racks("z", "x", "y"))}
    members = [
        GroupSubscriber(name, ("a",), rack=rack) for name, rack in zip("lmn", "xyz", strict=True)
    ]
    assert shown(assign_range(members, topics)) == {"l": "a1", "m": "a2", "n": "a0"}


def test_range_keeps_equal_numbers_together_near_them() -> None:
    topics = {name: AssignableTopic(2, racks=racks("y", "x")) for name in "ab"}
    members = [
        GroupSubscriber("m", ("a", "b"), rack="x"),
        GroupSubscriber("n", ("a", "b"), rack="y"),
    ]
    assert shown(assign_range(members, topics)) == {"m": "a1 b1", "n": "a0 b0"}


def test_range_puts_balance_before_nearness() -> None:
    topics = {"a": AssignableTopic(4, racks=racks("x", "x", "x", "y"))}
    members = [GroupSubscriber("m", ("a",), rack="x"), GroupSubscriber("n", ("a",), rack="y")]
    assert shown(assign_range(members, topics)) == {"m": "a0 a1", "n": "a2 a3"}


def test_range_looks_at_no_racks_when_every_partition_is_everywhere() -> None:
    topics = {"a": AssignableTopic(2, racks=racks("xy", "xy"))}
    members = [GroupSubscriber("m", ("a",), rack="y"), GroupSubscriber("n", ("a",), rack="x")]
    assert shown(assign_range(members, topics)) == {"m": "a0", "n": "a1"}


def test_the_coordinator_s_range_looks_at_no_racks() -> None:
    topics = {"a": AssignableTopic(2, racks=racks("y", "x"))}
    members = [GroupSubscriber("m", ("a",), rack="x"), GroupSubscriber("n", ("a",), rack="y")]
    assert shown(assign_server_range(members, topics)) == {"m": "a0", "n": "a1"}


# --- round robin ----------------------------------------------------------------------------------


def test_round_robin_goes_on_across_topics() -> None:
    given = assign_round_robin([member("n", "ab"), member("m", "ab")], of("a3 b3"))
    assert shown(given) == {"m": "a0 a2 b1", "n": "a1 b0 b2"}


def test_round_robin_passes_over_who_did_not_subscribe() -> None:
    members = [member("l", "a"), member("m", "ab"), member("n", "abc")]
    given = assign_round_robin(members, of("a1 b2 c3"))
    assert shown(given) == {"l": "a0", "m": "b0", "n": "b1 c0 c1 c2"}


# --- sticky ---------------------------------------------------------------------------------------


def test_sticky_leaves_everything_where_it_is_when_nothing_changed() -> None:
    members = [member("m", "a", "a3 a0"), member("n", "a", "a1 a2")]
    assert shown(assign_sticky(members, of("a4"))) == {"m": "a0 a3", "n": "a1 a2"}


def test_sticky_shares_out_only_what_the_leaver_had() -> None:
    members = [member("m", "a", "a0 a3"), member("n", "a", "a1 a4")]
    assert shown(assign_sticky(members, of("a6"))) == {"m": "a0 a2 a3", "n": "a1 a4 a5"}


def test_sticky_takes_for_a_newcomer_no_more_than_its_share() -> None:
    members = [member("m", "a", "a0 a1 a2"), member("n", "a", "a3 a4 a5"), member("o", "a")]
    assert shown(assign_sticky(members, of("a6"))) == {"m": "a0 a1", "n": "a3 a4", "o": "a2 a5"}


def test_the_claim_of_the_newer_generation_holds() -> None:
    members = [member("m", "a", "a0", generation=4), member("n", "a", "a0", generation=5)]
    assert shown(assign_sticky(members, of("a2"))) == {"m": "a1", "n": "a0"}


def test_equal_claims_cancel_each_other() -> None:
    members = [member("m", "a", "a1"), member("n", "a", "a1")]
    assert shown(assign_sticky(members, of("a2"))) == {"m": "a0", "n": "a1"}


def test_broken_user_data_claims_nothing() -> None:
    members = [GroupSubscriber("m", ("a",), user_data=b"\x7f\xff\xff\xff"), member("n", "a", "a0")]
    assert shown(assign_sticky(members, of("a2"))) == {"m": "a1", "n": "a0"}


def test_sticky_levels_shares_across_different_subscriptions() -> None:
    members = [member("l", "abc", "a0 b0 b1 c0 c1 c2"), member("m", "bc"), member("n", "c")]
    given = assign_sticky(members, of("a1 b2 c3"))
    assert sorted(len(share) for share in given.values()) == [2, 2, 2]
    assert TopicPartition("a", 0) in given["l"]


def test_an_owner_of_an_older_generation_gets_nothing_it_no_longer_wants() -> None:
    """Kafka would move a0 back to it for the sake of balance."""
    members = [
        member("l", "b", "a0 a1", generation=3),
        member("m", "ab", "a0 a1 a2 a3", generation=5),
        member("n", "ac", "", generation=5),
    ]
    given = assign_sticky(members, of("a4 b1 c1"))
    assert {partition.topic for partition in given["l"]} <= {"b"}


def test_sticky_moves_what_is_far_from_its_owner() -> None:
    topics = {"a": AssignableTopic(2, racks=racks("x", "y"))}
    members = [
        claiming(GroupSubscriber("m", ("a",), rack="y"), partitions("a0"), 1),
        claiming(GroupSubscriber("n", ("a",), rack="x"), partitions("a1"), 1),
    ]
    assert shown(assign_sticky(members, topics)) == {"m": "a1", "n": "a0"}


# --- cooperative sticky ---------------------------------------------------------------------------


def test_cooperative_gives_a_partition_only_when_its_owner_has_let_go() -> None:
    members = [member("m", "a", "a0 a1 a2 a3"), member("n", "a")]
    first = assign_cooperative_sticky(members, of("a4"))
    assert shown(first) == {"m": "a0 a1", "n": ""}
    members = [member("m", "a", "a0 a1", 2), member("n", "a", "", 2)]
    assert shown(assign_cooperative_sticky(members, of("a4"))) == {"m": "a0 a1", "n": "a2 a3"}


def test_cooperative_gives_at_once_what_nobody_holds() -> None:
    members = [member("m", "a", "a0"), member("n", "a")]
    assert shown(assign_cooperative_sticky(members, of("a2"))) == {"m": "a0", "n": "a1"}


def test_cooperative_holds_back_among_different_subscriptions_too() -> None:
    members = [member("m", "ab", "a0 a1 b0 b1"), member("n", "a")]
    given = assign_cooperative_sticky(members, of("a2 b2"))
    assert given["n"] == []
    assert len(given["m"]) == 2


# --- uniform --------------------------------------------------------------------------------------


def test_uniform_keeps_what_fits_and_fills_up() -> None:
    members = [member("m", "a", "a0 a1 a2"), member("n", "a"), member("o", "a", "a3")]
    given = assign_uniform(members, of("a6"))
    assert shown(given) == {"m": "a0 a1", "n": "a4 a5", "o": "a2 a3"}


@pytest.mark.parametrize(
    "owned", [("a0 a1", "a2", "a3"), ("a2", "a0 a1", "a3"), ("a2", "a3", "a0 a1")]
)
def test_uniform_leaves_the_larger_share_where_it_is(owned: tuple[str, ...]) -> None:
    members = [member(name, "a", held) for name, held in zip("mno", owned, strict=True)]
    assert shown(assign_uniform(members, of("a4"))) == dict(zip("mno", owned, strict=True))


def test_uniform_levels_each_topic_among_its_subscribers() -> None:
    """Not the whole group: m and n have no topic in common, and may differ by two."""
    members = [member("l", "ab", "a0 a1 a2 b0 b1 b2"), member("m", "a"), member("n", "b")]
    given = assign_uniform(members, of("a3 b3"))
    assert shown(given) == {"l": "b0 b1", "m": "a0 a1 a2", "n": "b2"}


def test_uniform_never_keeps_two_owners() -> None:
    members = [member("m", "a", "a0 a1"), member("n", "a", "a0 a1")]
    given = assign_uniform(members, of("a2"))
    assert sorted(p for share in given.values() for p in share) == partitions("a0 a1")
