"""What is wrong with a group that nobody coordinates, and that a coordinator's group has neither.

Each fault of the old consumer is shown on its own members, over a keeper in memory; beside it, the
same happens to a group of the coordinator.
"""

from barnabas.client.consumer.membership.zookeeper import HeldPartition
from barnabas.keeper.keeper import Event, WatchEventType
from barnabas.model.errors import Code
from tests.client.old_group import OldGroup, at
from tests.coordinators.consumer_groups import told, world
from tests.coordinators.world import World

MEMBERS, PARTITIONS = 10, 30
NAMES = [f"m{n}" for n in range(MEMBERS)]


class NewGroup:
    """Members of the new protocol, who do at each heartbeat as they are told."""

    def __init__(self) -> None:
        self.world: World = world(PARTITIONS)
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[int]] = {}
        for name in NAMES:
            self._take(name, told(self.world, self.world.enter(name)))
        self.settle()

    def _take(self, name: str, answer: tuple[int, list[int] | None]) -> tuple[int, int]:
        self.epochs[name], partitions = answer
        before = self.owned.setdefault(name, [])
        if partitions is None:
            return 0, 0
        self.owned[name] = partitions
        return len({*before} - {*partitions}), len({*partitions} - {*before})

    def beat(self, name: str) -> tuple[int, int]:
        """How many partitions it stopped reading, and how many it began to read."""
        call = self.world.beat(name, self.epochs[name], owned={"t": self.owned[name]})
        return self._take(name, told(self.world, call))

    def settle(self) -> tuple[int, int]:
        """Both, of all members, until nobody is told anything new."""
        stopped = begun = 0
        for _ in range(20):
            self.world.advance(1_000)
            changes = [self.beat(name) for name in self.owned]
            stopped += sum(each[0] for each in changes)
            begun += sum(each[1] for each in changes)
        return stopped, begun

    def leave(self, name: str) -> list[int]:
        self.world.beat(name, -1)
        return self.owned.pop(name)


def test_one_member_that_leaves_stops_every_other_one() -> None:
    group = OldGroup(PARTITIONS, NAMES)
    others = [group.members[name] for name in NAMES[1:]]
    for each in others:
        each.rebalances = each.given_up = each.keeper.asked = 0
    owned_before = {name: set(each.owns) for name, each in group.members.items()}

    group.leave("m0")
    fired = [each.told for each in others]
    assert fired == [[Event(WatchEventType.CHILDREN, "/consumers/g/ids")]] * (MEMBERS - 1)
    group.settle()

    assert {len(who) for who in group.owners().values()} == {1}, "all are read again, once each"
    assert all(each.rebalances >= 1 for each in others)
    assert sum(each.rebalances for each in others) == 14, "five tried before others had let go"
    assert sum(each.given_up for each in others) == PARTITIONS - 3, "everything was stopped"
    # Each looks at each other: what the keeper is asked grows with the square of the group.
    assert sum(each.keeper.asked for each in others) > (MEMBERS - 1) ** 2
    moved = sum(len(owned_before[name] - set(each.owns)) for name, each in group.members.items())
    assert moved == 15, "though only the three of the one that left had to change hands"


def test_one_member_that_leaves_a_coordinators_group_stops_nobody() -> None:
    group = NewGroup()
    assert sorted(p for owned in group.owned.values() for p in owned) == [*range(PARTITIONS)]
    left = group.leave("m0")
    assert group.settle() == (0, len(left)), "only what was left over changes hands"
    assert sorted(p for owned in group.owned.values() for p in owned) == [*range(PARTITIONS)]


def test_members_with_different_views_leave_partitions_to_nobody() -> None:
    """Nothing fails, nobody is told, and partition 2 is not read until somebody looks again."""
    group = OldGroup(6, ["a", "b", "c"])
    a, b = group.members["a"], group.members["b"]
    stale = a.look()
    group.leave("c")
    for each in (a, b):
        each.let_go()
    assert a.claim(stale) is None
    assert b.claim(b.look()) is None
    assert group.owners() == {0: ["a"], 1: ["a"], 2: [], 3: ["b"], 4: ["b"], 5: ["b"]}


def test_members_with_different_views_claim_the_same_until_one_gives_up() -> None:
    """`a` never hears that `b` has come: what is watched is not told for ever."""
    group = OldGroup(6, ["a"])
    group.store.lose_watches(group.members["a"].keeper.session)
    b = group.join("b")
    assert b.claim(b.look()) == HeldPartition(at(3), "a")
    gave_up = [b.rebalance(now=2_000 * tried) for tried in range(4)]
    assert gave_up == [False, False, False, True]
    assert b.owns == []
    assert group.owners() == {p: ["a"] for p in range(6)}


def test_a_member_that_is_cut_off_reads_on_beside_the_new_owner() -> None:
    """Its session has expired and it does not know: nothing it asks tells it what to stop."""
    group = OldGroup(2, ["a", "b"])
    a = group.members["a"]
    group.store.disconnect(a.keeper.session)
    group.store.expire(a.keeper.session)
    a.hear()
    assert not a.attempts.expired
    assert not a.attempts.due(group.now)
    group.settle()
    assert group.owners() == {0: ["a", "b"], 1: ["b"]}, "both read partition 0"
    a.keeper.reconnect()
    a.hear()
    assert a.attempts.expired


def test_a_coordinator_has_one_view_and_fences_members_with_another() -> None:
    """The same three: a stale view, an unreported newcomer, a member that is cut off."""
    group = NewGroup()
    w = group.world
    stale, late = group.epochs["m0"], group.owned["m0"]
    # Cut off, it is taken for dead; each member that counts the others assigns what it had.
    group.owned.pop("m0")
    for _ in range(12):
        w.advance(5_000)
        for name in group.owned:
            group.beat(name)
    group.settle()
    assert sorted(p for owned in group.owned.values() for p in owned) == [*range(PARTITIONS)]
    # It reads what it has fetched, but nothing it says is believed any more.
    assert w.beat("m0", stale, owned={"t": late}).code is Code.UNKNOWN_MEMBER_ID
    refused = w.commit_code(99, member="m0", generation=stale, partition=late[0])
    assert refused is Code.UNKNOWN_MEMBER_ID
    # A newcomer is given nothing that is still another's, and no share is reckoned by members.
    group._take("new", told(w, w.enter("new")))
    assert group.owned["new"] == []
    for _ in range(20):
        w.advance(1_000)
        for name in list(group.owned):
            group.beat(name)
            owned = [p for each in group.owned.values() for p in each]
            assert len(owned) == len(set(owned)), "two owners"
    assert sorted(owned) == [*range(PARTITIONS)]
    assert group.owned["new"]
