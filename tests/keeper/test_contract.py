"""One contract for every keeper."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import binary, integers, sampled_from

from barnabas.keeper.keeper import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    Keeper,
    KeeperError,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    ensure,
)
from barnabas.keeper.memory import MemoryKeeper
from barnabas.keeper.sqlite import SqliteKeeper


@pytest.fixture(params=["memory", "sqlite"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    opened: Keeper = (
        MemoryKeeper() if request.param == "memory" else SqliteKeeper(str(tmp_path / "keeper"))
    )
    yield opened
    opened.close()


def test_a_node_holds_its_data_and_counts_its_changes(keeper: Keeper) -> None:
    keeper.create("/a", b"one")
    assert keeper.get("/a") == Node(b"one", 0)
    assert keeper.set("/a", b"two") == 1
    assert keeper.set("/a", b"three", version=1) == 2
    assert keeper.get("/a") == Node(b"three", 2)


def test_a_node_is_created_once(keeper: Keeper) -> None:
    keeper.create("/a")
    with pytest.raises(NodeExists, match="/a exists"):
        keeper.create("/a", b"other")
    assert keeper.get("/a") == Node(b"", 0)


def test_a_node_needs_its_parent(keeper: Keeper) -> None:
    with pytest.raises(NoNode, match="/a does not exist: cannot create /a/b"):
        keeper.create("/a/b")
    ensure(keeper, "/a/b/c")
    ensure(keeper, "/a/b/c")
    assert keeper.exists("/a/b/c")


def test_what_is_not_there_is_said_by_name(keeper: Keeper) -> None:
    for attempt in (keeper.get, keeper.delete, keeper.children):
        with pytest.raises(NoNode, match="/gone does not exist"):
            attempt("/gone")
    with pytest.raises(NoNode, match="/gone"):
        keeper.set("/gone", b"")
    assert not keeper.exists("/gone")


def test_a_change_since_it_was_read_is_noticed(keeper: Keeper) -> None:
    keeper.create("/a")
    keeper.set("/a", b"someone else")
    with pytest.raises(BadVersion, match="/a has another version: 1, not 0"):
        keeper.set("/a", b"mine", version=0)
    with pytest.raises(BadVersion):
        keeper.delete("/a", version=0)
    keeper.delete("/a", version=1)
    assert not keeper.exists("/a")


def test_a_node_with_children_stays(keeper: Keeper) -> None:
    ensure(keeper, "/a/b")
    with pytest.raises(NotEmpty):
        keeper.delete("/a")
    keeper.delete("/a/b")
    keeper.delete("/a")


def test_children_are_names_in_order_and_not_grandchildren(keeper: Keeper) -> None:
    for path in ["/t/b", "/t/a/x", "/t/ab", "/tt/z"]:
        ensure(keeper, path)
    assert keeper.children("/t") == ["a", "ab", "b"]
    assert keeper.children("/t/b") == []
    assert keeper.children("/") == ["t", "tt"]


def test_many_operations_are_done_together_or_not_at_all(keeper: Keeper) -> None:
    keeper.create("/epoch", b"7")
    keeper.multi([Check("/epoch", 0), Create("/a"), Create("/a/b"), Set("/epoch", b"8", 0)])
    assert keeper.get("/epoch") == Node(b"8", 1)
    attempts: list[Operation] = [Check("/epoch", 0), Create("/a"), Delete("/a"), Set("/x", b"")]
    for broken in attempts:
        with pytest.raises(KeeperError):
            keeper.multi([Create("/new"), Set("/epoch", b"9"), broken])
        assert not keeper.exists("/new")
        assert keeper.get("/epoch") == Node(b"8", 1)
    keeper.multi([Delete("/a/b"), Delete("/a")])
    assert keeper.children("/") == ["epoch"]


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//a", "/a//b", "/a\0", "/a/../b", "/" + "x" * 2000]
)
def test_a_path_that_is_none_is_refused(keeper: Keeper, path: str) -> None:
    with pytest.raises(ValueError, match="keeper path"):
        keeper.create(path)


def test_a_node_too_large_for_zookeeper_is_refused(keeper: Keeper) -> None:
    keeper.create("/a", bytes(1 << 20))
    with pytest.raises(ValueError, match="at most"):
        keeper.set("/a", bytes((1 << 20) + 1))


PATHS = sampled_from(["/a", "/b", "/a/c", "/a/d", "/a/c/e"])
VERSIONS = integers(-1, 3)


class BothAlike(RuleBasedStateMachine):
    """Whatever is done, the file answers as the memory does."""

    def __init__(self) -> None:
        super().__init__()
        self.keepers: list[Keeper] = [MemoryKeeper(), SqliteKeeper(":memory:")]

    def teardown(self) -> None:
        for keeper in self.keepers:
            keeper.close()

    def alike(self, *operations: Create | Set | Delete | Check) -> None:
        answers = []
        for keeper in self.keepers:
            try:
                keeper.multi(operations)
                answers.append("done")
            except KeeperError as problem:
                answers.append(f"{type(problem).__name__}: {problem}")
        assert answers[0] == answers[1]

    @rule(path=PATHS, data=binary(max_size=3))
    def create(self, path: str, data: bytes) -> None:
        self.alike(Create(path, data))

    @rule(path=PATHS, data=binary(max_size=3), version=VERSIONS)
    def set(self, path: str, data: bytes, version: int) -> None:
        self.alike(Set(path, data, version))

    @rule(path=PATHS, other=PATHS, version=VERSIONS)
    def delete_and_create(self, path: str, other: str, version: int) -> None:
        self.alike(Delete(path, version), Create(other), Check(other, 0))

    @invariant()
    def trees_agree(self) -> None:
        trees = [_tree(keeper, "/") for keeper in self.keepers]
        assert trees[0] == trees[1]


def _tree(keeper: Keeper, path: str) -> dict[str, Node]:
    found = {}
    for name in keeper.children(path):
        child = f"{path.rstrip('/')}/{name}"
        found[child] = keeper.get(child)
        found |= _tree(keeper, child)
    return found


TestBothAlike = BothAlike.TestCase
TestBothAlike.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def test_any_version_is_any_version(keeper: Keeper) -> None:
    keeper.create("/a")
    keeper.set("/a", b"")
    keeper.multi([Check("/a", ANY_VERSION)])
