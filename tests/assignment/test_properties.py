"""What holds for every group, whatever it subscribes to and whatever it owned."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.assignment import AssignableTopic, Assignment, GroupSubscriber
from barnabas.assignment.group import alike
from barnabas.assignment.java_order import slot_of, text_hash
from barnabas.model.ids import TopicPartition
from tests.assignment.groups import ASSIGNORS, STICKY, Group, claiming
from tests.share import IN_FULL

EXAMPLES = settings(max_examples=100 if IN_FULL else 5, deadline=None)
EVEN = ("roundrobin", "sticky", "server uniform")
LASTING = ("sticky", "cooperative-sticky", "server uniform")

NAMES = [f"topic-{number}" for number in range(5)]
RACKS = ("x", "y", "z")


@st.composite
def groups(draw: st.DrawFn, same: bool | None = None, racked: bool = True) -> Group:
    """Members that own nothing yet."""
    racks = st.frozensets(st.sampled_from(RACKS), min_size=1) if racked else st.just(frozenset())
    topics = {}
    for number, name in enumerate(draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))):
        count = draw(st.integers(1, 12))
        known = tuple(draw(st.lists(racks, min_size=count, max_size=count)))
        topics[name] = AssignableTopic(count, UUID(int=(number + 1) * 0x9E3779B97F4A7C15), known)
    wanted = st.lists(st.sampled_from(NAMES), unique=True, min_size=1).map(tuple)
    all_want = draw(wanted) if (draw(st.booleans()) if same is None else same) else None
    members = [
        GroupSubscriber(
            f"member-{number}",
            all_want or draw(wanted),
            draw(st.sampled_from((None, f"instance-{number}"))),
            draw(st.sampled_from((None, *RACKS))) if racked else None,
        )
        for number in draw(st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=9))
    ]
    return Group(members, topics)


@st.composite
def groups_with_owners(draw: st.DrawFn, same: bool | None = None, racked: bool = True) -> Group:
    """Each partition has one owner or none, subscribed or not."""
    group = draw(groups(same, racked))
    owned: Assignment = {member.member_id: [] for member in group.members}
    someone = st.sampled_from((None, *owned))
    for name, topic in group.topics.items():
        for partition in range(topic.partitions):
            if (owner := draw(someone)) is not None:
                owned[owner].append(TopicPartition(name, partition))
    return group.owning(owned, generation=3)


def assign(assignor: str, group: Group) -> Assignment:
    return ASSIGNORS[assignor](group.members, group.topics)


def wanted_partitions(group: Group) -> list[TopicPartition]:
    wanted = {name for member in group.members for name in member.topics}
    return sorted(
        TopicPartition(name, partition)
        for name, topic in group.topics.items()
        if name in wanted
        for partition in range(topic.partitions)
    )


def sizes(assignment: Assignment) -> list[int]:
    return [len(share) for share in assignment.values()]


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions some member lost."""
    return sum(len(set(share) - set(after.get(who, ()))) for who, share in before.items())


def settled(assignor: str, group: Group) -> tuple[Group, Assignment]:
    """The group as it is when everybody has what it was assigned, by as many rounds as it takes."""
    for generation in range(10, 14):
        assignment = assign(assignor, group)
        group = group.owning(assignment, generation)
        if sorted(p for share in assignment.values() for p in share) == wanted_partitions(group):
            return group, assignment
    raise AssertionError("still not everything is assigned")


# --- each partition has one reader ----------------------------------------------------------------


@pytest.mark.parametrize("assignor", [name for name in ASSIGNORS if name != "cooperative-sticky"])
@EXAMPLES
@given(group=groups_with_owners())
def test_every_partition_goes_to_one_member_that_wants_it(assignor: str, group: Group) -> None:
    assignment = assign(assignor, group)
    assert sorted(p for share in assignment.values() for p in share) == wanted_partitions(group)
    for member in group.members:
        assert {partition.topic for partition in assignment[member.member_id]} <= set(member.topics)


@EXAMPLES
@given(group=groups_with_owners())
def test_cooperative_never_gives_what_another_still_holds(group: Group) -> None:
    assignment = assign("cooperative-sticky", group)
    held = {p: member.member_id for member in group.members for p in member.owned}
    given_to = Counter(p for share in assignment.values() for p in share)
    assert set(given_to.values()) <= {1}
    for member_id, share in assignment.items():
        assert all(held.get(partition, member_id) == member_id for partition in share)


@EXAMPLES
@given(group=groups_with_owners(same=True, racked=False))
def test_cooperative_gives_in_two_rounds_what_sticky_gives_in_one(group: Group) -> None:
    """Among members that want the same; others may need a third."""
    at_once = assign("sticky", group)
    first = assign("cooperative-sticky", group)
    assert all(set(first[member_id]) <= set(share) for member_id, share in at_once.items())
    second = assign("cooperative-sticky", group.owning(first, 4))
    assert sorted(p for share in second.values() for p in share) == wanted_partitions(group)


@pytest.mark.parametrize("assignor", ASSIGNORS)
@EXAMPLES
@given(group=groups_with_owners(), data=st.data())
def test_the_order_of_joining_matters_only_where_hashes_meet(
    assignor: str, group: Group, data: st.DataObject
) -> None:
    """With any leader, and however members rejoin, a group that is not changed is not shuffled."""
    slots = Counter(_slot(member.member_id) for member in group.members)
    if max(slots.values()) > 1:
        return
    shuffled = replace(group, members=data.draw(st.permutations(group.members)))
    assert assign(assignor, shuffled) == assign(assignor, group)


def _slot(member_id: str) -> int:
    return slot_of(text_hash(member_id), 16)


# --- balance --------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", EVEN)
@EXAMPLES
@given(group=groups_with_owners(same=True))
def test_members_that_want_the_same_get_equally_much(assignor: str, group: Group) -> None:
    counts = sizes(assign(assignor, group))
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("assignor", ["range", "server range"])
@EXAMPLES
@given(group=groups())
def test_range_shares_each_topic_equally(assignor: str, group: Group) -> None:
    assignment = assign(assignor, group)
    for name in group.topics:
        counts = [
            sum(partition.topic == name for partition in assignment[member.member_id])
            for member in group.members
            if name in member.topics
        ]
        assert not counts or max(counts) - min(counts) <= 1


@EXAMPLES
@given(group=groups(same=False))
def test_sticky_leaves_no_partition_that_would_help_a_smaller_share(group: Group) -> None:
    """Where nobody owned anything; else it may stop as soon as moving does not help overall."""
    assignment = assign("sticky", group)
    for giver in group.members:
        for partition in assignment[giver.member_id]:
            for taker in group.members:
                if partition.topic in taker.topics:
                    more, less = assignment[giver.member_id], assignment[taker.member_id]
                    assert len(more) - len(less) <= 1


# --- stickiness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", LASTING)
@EXAMPLES
@given(group=groups_with_owners(racked=False))
def test_nothing_moves_when_nothing_changed(assignor: str, group: Group) -> None:
    """But for racks: what is far from its owner is dealt again every time, as in Kafka."""
    if assignor == "server uniform" and not alike(group.members):
        group = group.owning(assign(assignor, group), 4)  # it levels in a limited number of rounds
    group, before = settled(assignor, group)
    assert moved(before, assign(assignor, group)) == 0


@pytest.mark.parametrize("assignor", LASTING)
@EXAMPLES
@given(group=groups(same=True, racked=False), data=st.data())
def test_when_a_member_leaves_only_its_partitions_move(
    assignor: str, group: Group, data: st.DataObject
) -> None:
    group, before = settled(assignor, group)
    if len(group.members) == 1:
        return
    leaver = data.draw(st.sampled_from(group.members))
    left = replace(group, members=[member for member in group.members if member is not leaver])
    _, after = settled(assignor, left)
    del before[leaver.member_id]
    assert moved(before, after) == 0


@pytest.mark.parametrize("assignor", LASTING)
@EXAMPLES
@given(group=groups(same=True, racked=False))
def test_a_newcomer_takes_no_more_than_its_share(assignor: str, group: Group) -> None:
    group, before = settled(assignor, group)
    newcomer = GroupSubscriber("newcomer", group.members[0].topics)
    _, after = settled(assignor, replace(group, members=[*group.members, newcomer]))
    assert moved(before, after) == len(after["newcomer"])


@pytest.mark.parametrize("assignor", STICKY)
@EXAMPLES
@given(group=groups_with_owners(same=True, racked=False))
def test_no_owner_loses_more_than_it_has_too_much(assignor: str, group: Group) -> None:
    _, after = settled(assignor, group)
    quota = len(wanted_partitions(group)) // len(group.members)
    for member in group.members:
        wanted = {p for p in member.owned if p.topic in member.topics}
        lost = wanted - set(after[member.member_id])
        assert len(lost) <= max(0, len(wanted) - quota)


# --- cost -----------------------------------------------------------------------------------------


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python it takes: the same on every machine, however busy."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def cost_of_sharing(assignor: str, topics_count: int, members_count: int, mixed: bool) -> int:
    """Of a first sharing, and of another once a member has left."""
    topics = {f"topic-{n}": AssignableTopic(50, UUID(int=n << 60)) for n in range(topics_count)}
    names = tuple(topics)
    members = [
        GroupSubscriber(f"member-{n}", names[n % (topics_count // 2) :] if mixed else names)
        for n in range(members_count)
    ]

    def share() -> None:
        assignment = assign(assignor, Group(members, topics))
        again = [claiming(m, assignment[m.member_id], 1) for m in members if m is not members[7]]
        ASSIGNORS[assignor](again, topics)

    return lines_run(share)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_sharing_costs_no_more_than_members_times_partitions(assignor: str, mixed: bool) -> None:
    """Five times of both is 25 times; one loop too many would make it 125."""
    small = cost_of_sharing(assignor, 4, 20, mixed)
    assert cost_of_sharing(assignor, 20, 100, mixed) < 60 * small
