"""Members of a group in the keeper: shares, claims, tries, offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.consumer.membership.zookeeper import (
    Attempts,
    GroupSnapshot,
    HeldPartition,
    ZookeeperMember,
    share,
)
from barnabas.keeper import consumer_paths as paths
from barnabas.keeper.keeper import (
    Event,
    OutcomeUnknown,
    SessionExpired,
    SessionState,
    WatchEventType,
)
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.model.errors import Corrupt, InvalidRequest
from tests.client.old_group import GROUP, TOPIC, OldGroup, OldMember, at

# --- who gets what --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "shares"),
    [
        (1, [[0, 1, 2]]),
        (2, [[0, 1], [2]]),
        (3, [[0], [1], [2]]),
        (4, [[0], [1], [2], []]),
    ],
)
def test_three_partitions_are_shared_as_members_come(members: int, shares: list[list[int]]) -> None:
    names = [f"consumer{n}" for n in range(1, members + 1)]
    assert [share(range(3), names, name) for name in names] == shares


@given(st.integers(0, 60), st.integers(1, 20))
def test_members_with_the_same_view_assign_every_partition_once(
    partitions: int, count: int
) -> None:
    names = [f"m{n}" for n in range(count)]
    dealt = [p for name in names for p in share(range(partitions), names, name)]
    assert sorted(dealt) == [*range(partitions)]


def test_rounding_up_can_leave_a_member_without_work() -> None:
    """A coordinator would give 2, 1 and 1."""
    assert [len(share(range(4), "abc", name)) for name in "abc"] == [2, 2, 0]


def test_only_members_that_read_a_topic_share_it() -> None:
    view = GroupSnapshot({"a": ["t", "u"], "b": ["t"]}, {"t": [0, 1], "u": [0, 1]})
    assert [str(each) for each in view.share("a")] == ["t-0", "u-0", "u-1"]
    assert [str(each) for each in view.share("b")] == ["t-1"]


# --- claims ---------------------------------------------------------------------------------------


def test_a_group_comes_to_rest_and_follows_members_and_partitions() -> None:
    group = OldGroup(3, ["a", "b"])
    assert group.owners() == {0: ["a"], 1: ["a"], 2: ["b"]}
    group.join("c")
    group.settle()
    assert group.owners() == {0: ["a"], 1: ["b"], 2: ["c"]}
    group.leave("a")
    group.settle()
    assert group.owners() == {0: ["b"], 1: ["b"], 2: ["c"]}
    group.partitions = 5
    group.grow(5)
    group.settle()
    assert group.owners() == {0: ["b"], 1: ["b"], 2: ["b"], 3: ["c"], 4: ["c"]}


def test_brokers_that_come_and_go_are_a_reason_to_look_again() -> None:
    group = OldGroup(2, ["a"])
    [a] = group.members.values()
    for path in ("/brokers/ids", "/brokers/ids/1", "/brokers/ids/2"):
        before = a.rebalances
        group.root.create(path)
        group.settle()
        assert a.rebalances == before + 1


def test_a_claim_says_who_is_in_the_way_and_claims_nothing() -> None:
    group = OldGroup(3, ["a"])
    b = group.join("b")
    assert b.claim(b.look()) == HeldPartition(at(2), "a")
    assert str(HeldPartition(at(2), "a")) == "t-2 is still owned by a"
    assert b.owns == []
    assert group.root.children(paths.owners(GROUP, TOPIC)) == ["0", "1", "2"]


def test_a_claim_whose_answer_was_lost_is_let_go() -> None:
    group = OldGroup(3)
    a = group.join("a")
    a.claim(a.look())
    a.let_go()
    view = a.look()
    group.store.fail_next_write(a.keeper.session, done=True)
    with pytest.raises(OutcomeUnknown):
        a.claim(view)
    assert a.owns == []
    a.keeper.reconnect()
    assert group.root.children(paths.owners(GROUP, TOPIC)) == ["0", "1", "2"]
    a.let_go()
    assert group.root.children(paths.owners(GROUP, TOPIC)) == []


def test_nobody_lets_go_of_what_another_owns() -> None:
    group = OldGroup(1, ["a"])
    group.root.delete(paths.owner(GROUP, at(0)))  # by somebody's hand
    b = OldMember(group.store, "0")  # before a
    assert b.claim(b.look()) is None
    assert b.owns == [0]
    group.members["a"].let_go()
    assert group.root.get(paths.owner(GROUP, at(0))).data == b"0"


def test_more_partitions_than_fit_into_one_write_are_claimed_and_let_go() -> None:
    group = OldGroup(2_500, ["a"])
    a = group.members["a"]
    assert len(a.owns) == 2_500
    a.let_go()
    assert group.root.children(paths.owners(GROUP, TOPIC)) == []


def test_an_id_belongs_to_one_member() -> None:
    group = OldGroup(1, ["a"])
    with pytest.raises(InvalidRequest, match="has a member 'a' already"):
        OldMember(group.store, "a").look()


def test_a_member_whose_node_was_deleted_registers_again() -> None:
    group = OldGroup(1, ["a"])
    group.root.delete(paths.member(GROUP, "a"))
    group.settle()
    assert group.owners() == {0: ["a"]}
    assert group.root.children(paths.ids(GROUP)) == ["a"]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"subscription":{"t.*":1},"pattern":"white_list"}', b"\xff"]
)
def test_a_member_that_cannot_be_reckoned_with_is_named(data: bytes) -> None:
    group = OldGroup(1, ["a"])
    group.root.create(paths.member(GROUP, "rubbish"), data)
    with pytest.raises(Corrupt, match="/consumers/g/ids/rubbish cannot be read"):
        group.members["a"].look()


# --- offsets --------------------------------------------------------------------------------------


def member_of(store: MemoryStore) -> ZookeeperMember:
    return ZookeeperMember(MemoryKeeper(store, 6_000), GROUP, "a", [TOPIC])


def test_offsets_stay_when_their_member_goes() -> None:
    store = MemoryStore()
    first = member_of(store)
    assert first.committed([at(0)]) == {}
    first.commit({at(0): 5})
    first.commit({at(0): 7, at(1): 2**63 - 1})
    first.keeper.close()
    assert member_of(store).committed([at(0), at(1), at(2)]) == {at(0): 7, at(1): 2**63 - 1}


def test_a_member_whose_session_has_expired_commits_nothing() -> None:
    store = MemoryStore()
    member = member_of(store)
    member.commit({at(0): 5})
    store.expire(member.keeper.session)
    with pytest.raises(SessionExpired):
        member.commit({at(0): 6})
    assert member_of(store).committed([at(0)]) == {at(0): 5}


@pytest.mark.parametrize("data", [b"", b"-1", b"1.5", b"9" * 20, "\u0663".encode()])
def test_an_offset_that_is_none_is_not_believed(data: bytes) -> None:
    with pytest.raises(Corrupt, match="is not an offset"):
        paths.read_offset("/consumers/g/offsets/t/0", data)


# --- tries ----------------------------------------------------------------------------------------


def test_tries_are_spaced_out_and_run_out() -> None:
    attempts = Attempts(tries_max=3, backoff_ms=100)
    assert attempts.due(0)
    assert not attempts.failed(0)
    assert not attempts.due(99)
    assert attempts.next_deadline() == 100
    assert not attempts.failed(100)
    assert attempts.failed(200), "that was the last"
    assert not attempts.failed(300), "a consumer that asks again begins at the first attempt"
    attempts.done()
    assert attempts.next_deadline() is None


def test_every_change_of_what_was_seen_is_a_reason_of_its_own() -> None:
    attempts = Attempts(tries_max=2, backoff_ms=100)
    attempts.failed(0)
    attempts.hear(Event(WatchEventType.CHILDREN, "/consumers/g/ids"))
    assert attempts.due(1)
    assert attempts.cause == "a member joined or left"
    assert not attempts.failed(1), "its tries begin again"
    attempts.hear(Event(WatchEventType.CHANGED, "/brokers/topics/orders"))
    assert attempts.cause == "topic orders was changed"
    attempts.hear(Event(WatchEventType.CREATED, "/brokers/ids"))
    assert attempts.cause == "a broker joined or left"
    attempts.done()
    attempts.hear(SessionState.SUSPENDED)
    assert not attempts.due(1)
    attempts.hear(SessionState.CONNECTED)
    assert attempts.due(1)
    attempts.hear(SessionState.EXPIRED)
    assert attempts.expired
