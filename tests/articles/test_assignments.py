"""The assignments that the articles give as examples, number by number."""

from barnabas.assignment import (
    AssignableTopic,
    Assignment,
    GroupSubscriber,
    assign_range,
    assign_round_robin,
    assign_sticky,
)
from barnabas.model.ids import TopicPartition
from tests.assignment.groups import claiming


def members(*topics: str) -> list[GroupSubscriber]:
    """c0, c1, ... each with the topics that its text names."""
    return [GroupSubscriber(f"c{n}", tuple(each)) for n, each in enumerate(topics)]


def numbers(given: Assignment) -> list[list[int]]:
    return [[at.partition for at in given[member]] for member in sorted(given)]


def shares(given: Assignment) -> list[int]:
    return [len(given[member]) for member in sorted(given)]


def test_range_of_10_partitions_over_3_members() -> None:
    given = assign_range(members("a", "a", "a"), {"a": AssignableTopic(10)})
    assert numbers(given) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_round_robin_of_10_partitions_over_3_members() -> None:
    given = assign_round_robin(members("a", "a", "a"), {"a": AssignableTopic(10)})
    assert numbers(given) == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_sticky_moves_only_what_the_third_member_had() -> None:
    """Balance first, then stay: after the third has died, the others keep what they have."""
    topic = {"a": AssignableTopic(10)}
    before = assign_sticky(members("a", "a", "a"), topic)
    assert sorted(shares(before)) == [3, 3, 4]
    left = [claiming(each, before[each.member_id], 1) for each in members("a", "a")]
    after = assign_sticky(left, topic)
    assert shares(after) == [5, 5]
    for member in ("c0", "c1"):
        assert {*before[member]} <= {*after[member]}


def test_20_members_share_100_partitions_5_each() -> None:
    for assign in (assign_range, assign_round_robin, assign_sticky):
        assert {*shares(assign(members(*"a" * 20), {"a": AssignableTopic(100)}))} == {5}


def test_range_gives_the_first_members_more_of_every_topic() -> None:
    topics = {name: AssignableTopic(3) for name in "abcd"}
    both = members("abcd", "abcd")
    assert shares(assign_range(both, topics)) == [8, 4]
    assert shares(assign_round_robin(both, topics)) == [6, 6]


def test_round_robin_is_uneven_if_members_subscribe_to_different_topics() -> None:
    """t0 has 1 partition, t1 has 2, t2 has 3; c0 reads t0, c1 reads t0 and t1, c2 reads all."""
    topics = {"a": AssignableTopic(1), "b": AssignableTopic(2), "c": AssignableTopic(3)}
    given = assign_round_robin(members("a", "ab", "abc"), topics)
    assert shares(given) == [1, 1, 4]
    assert {at.topic for at in given["c0"]} == {"a"}, "not subscribed: gets nothing of it"
    balanced = assign_sticky(members("a", "ab", "abc"), topics)
    assert shares(balanced) == [1, 2, 3], "sticky balances what subscriptions allow"


def test_members_are_sorted_by_name_and_the_first_get_one_more() -> None:
    topics = {"a": AssignableTopic(4)}
    given = assign_range(list(reversed(members("a", "a", "a"))), topics)
    assert given["c0"] == [TopicPartition("a", 0), TopicPartition("a", 1)]
    assert shares(given) == [2, 1, 1]
