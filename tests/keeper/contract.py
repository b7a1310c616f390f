"""One contract for every keeper; where it runs is in test_contract.py and tests/support."""

from collections.abc import Callable

import pytest

from barnabas.keeper.keeper import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    Event,
    Keeper,
    KeeperError,
    NoChildren,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    SessionState,
    Set,
    WatchEventType,
    ensure,
)
from tests.keeper.rooms import Opened, Room


class Contract:
    @pytest.fixture
    def one(self, room: Room) -> Opened:
        return room.open()

    @pytest.fixture
    def two(self, room: Room) -> Opened:
        return room.open()

    @pytest.fixture
    def keeper(self, one: Opened) -> Keeper:
        return one.keeper

    def test_a_node_holds_its_data_and_counts_its_changes(self, keeper: Keeper) -> None:
        keeper.create("/a", b"one")
        assert keeper.get("/a")[:2] == (b"one", 0)
        assert keeper.set("/a", b"two") == 1
        assert keeper.set("/a", b"three", version=1) == 2
        assert keeper.get("/a")[:2] == (b"three", 2)

    def test_many_nodes_are_read_at_once_and_those_that_are_not_there_are_none(
        self, keeper: Keeper
    ) -> None:
        keeper.create("/a", b"one")
        keeper.multi([Create(f"/a/{number}", str(number).encode()) for number in range(700)])
        keeper.set("/a/699", b"last")
        paths = ["/b", *(f"/a/{number}" for number in reversed(range(700))), "/a", "/a/700"]
        found = keeper.get_many(paths)
        assert [node for node in (found[0], found[-1]) if node is not None] == []
        assert found[1] == keeper.get("/a/699")
        assert [None if node is None else node.data for node in found[2:-1]] == [
            *(str(number).encode() for number in reversed(range(699))),
            b"one",
        ]
        assert keeper.get_many([]) == []

    def test_a_node_is_created_once(self, keeper: Keeper) -> None:
        keeper.create("/a")
        with pytest.raises(NodeExists, match="/a exists"):
            keeper.create("/a", b"other")
        assert keeper.get("/a")[:2] == (b"", 0)

    def test_a_node_needs_its_parent(self, keeper: Keeper) -> None:
        with pytest.raises(NoNode, match="/a does not exist: cannot create /a/b"):
            keeper.create("/a/b")
        ensure(keeper, "/a/b/c")
        ensure(keeper, "/a/b/c")
        assert keeper.exists("/a/b/c")

    def test_what_is_not_there_is_said_by_name(self, keeper: Keeper) -> None:
        for attempt in (keeper.get, keeper.delete, keeper.children):
            with pytest.raises(NoNode, match="/gone does not exist"):
                attempt("/gone")
        with pytest.raises(NoNode, match="/gone"):
            keeper.set("/gone", b"")
        assert not keeper.exists("/gone")

    def test_a_change_since_it_was_read_is_noticed(self, keeper: Keeper) -> None:
        keeper.create("/a")
        keeper.set("/a", b"someone else")
        with pytest.raises(BadVersion, match="/a has another version"):
            keeper.set("/a", b"mine", version=0)
        with pytest.raises(BadVersion):
            keeper.delete("/a", version=0)
        keeper.delete("/a", version=1)
        assert not keeper.exists("/a")

    def test_a_node_with_children_stays(self, keeper: Keeper) -> None:
        ensure(keeper, "/a/b")
        with pytest.raises(NotEmpty):
            keeper.delete("/a")
        keeper.delete("/a/b")
        keeper.delete("/a")

    def test_children_are_names_in_order_and_not_grandchildren(self, keeper: Keeper) -> None:
        for path in ["/t/b", "/t/a/x", "/t/ab", "/tt/z"]:
            ensure(keeper, path)
        assert keeper.children("/t") == ["a", "ab", "b"]
        assert keeper.children("/t/b") == []
        assert keeper.children("/") == ["t", "tt"]

    def test_many_operations_are_done_together_or_not_at_all(self, keeper: Keeper) -> None:
        keeper.create("/epoch", b"7")
        keeper.multi([Check("/epoch", 0), Create("/a"), Create("/a/b"), Set("/epoch", b"8", 0)])
        assert keeper.get("/epoch")[:2] == (b"8", 1)
        attempts: list[Operation] = [Check("/epoch", 0), Create("/a"), Delete("/a"), Set("/x", b"")]
        for broken in attempts:
            with pytest.raises(KeeperError):
                keeper.multi([Create("/new"), Set("/epoch", b"9"), broken])
            assert not keeper.exists("/new")
            assert keeper.get("/epoch")[:2] == (b"8", 1)
        keeper.multi([Delete("/a/b"), Delete("/a")])
        assert keeper.children("/") == ["epoch"]

    @pytest.mark.parametrize(
        "path", ["", "a", "/a/", "//a", "/a//b", "/a\0", "/a/../b", "/" + "x" * 2000]
    )
    def test_a_path_that_is_none_is_refused(self, keeper: Keeper, path: str) -> None:
        with pytest.raises(ValueError, match="keeper path"):
            keeper.create(path)

    def test_any_version_is_any_version(self, keeper: Keeper) -> None:
        keeper.create("/a")
        keeper.set("/a", b"")
        keeper.multi([Check("/a", ANY_VERSION)])

    # Sessions

    def test_an_ephemeral_node_goes_with_its_session(
        self, room: Room, one: Opened, two: Opened
    ) -> None:
        one.keeper.create("/mine", ephemeral=True)
        assert two.keeper.get("/mine").owner == one.keeper.session != two.keeper.session
        one.keeper.close()
        assert not two.keeper.exists("/mine")

    def test_an_expired_session_is_notified_and_can_do_nothing(
        self, room: Room, one: Opened, two: Opened
    ) -> None:
        two.keeper.create("/stays")
        one.keeper.create("/a", ephemeral=True)
        one.keeper.create("/b", ephemeral=True)
        one.keeper.exists("/stays", watch=True)
        room.expire(one)
        room.settle(two)
        assert two.keeper.children("/") == ["stays"]
        assert one.news[-1] is SessionState.EXPIRED
        attempts: list[Callable[[], object]] = [
            lambda: one.keeper.create("/a", ephemeral=True),
            lambda: one.keeper.set("/stays", b"zombie"),
            lambda: one.keeper.delete("/stays"),
            lambda: one.keeper.multi([Set("/stays", b"zombie")]),
            lambda: one.keeper.get("/stays"),
            lambda: one.keeper.exists("/stays"),
            lambda: one.keeper.children("/"),
        ]
        for attempt in attempts:
            with pytest.raises(SessionExpired):
                attempt()
        two.keeper.set("/stays", b"changed")
        assert one.news[-1] is SessionState.EXPIRED, "nothing is told after it"
        assert two.keeper.get("/stays")[:2] == (b"changed", 1)
        again = room.open()
        assert again.keeper.session not in (0, one.keeper.session)
        again.keeper.create("/a", ephemeral=True)

    def test_a_node_created_again_is_another_one(self, one: Opened, two: Opened) -> None:
        one.keeper.create("/controller", ephemeral=True)
        first = one.keeper.get("/controller")
        one.keeper.delete("/controller")
        two.keeper.create("/controller", ephemeral=True)
        second = one.keeper.get("/controller")
        assert second.version == first.version
        assert second.created > first.created
        assert second.owner == two.keeper.session

    def test_nothing_is_below_an_ephemeral_node(self, keeper: Keeper) -> None:
        keeper.create("/a", ephemeral=True)
        with pytest.raises(NoChildren, match="/a is ephemeral"):
            keeper.create("/a/b")

    def test_sequential_names_count_the_births_below_a_node(self, keeper: Keeper) -> None:
        keeper.create("/q")
        assert keeper.create("/q/n-", sequential=True) == "/q/n-0000000000"
        keeper.create("/q/other")
        keeper.delete("/q/other")
        made = keeper.multi([Create("/q/n-", sequential=True), Create("/q/m-", sequential=True)])
        assert made == ["/q/n-0000000002", "/q/m-0000000003"]
        with pytest.raises(KeeperError):
            keeper.multi([Create("/q/n-", sequential=True), Check("/q", 7)])
        assert keeper.create("/q/n-", ephemeral=True, sequential=True) == "/q/n-0000000004"

    def test_multi_answers_for_each_operation(self, keeper: Keeper) -> None:
        keeper.create("/a")
        done = keeper.multi([Check("/a", 0), Set("/a", b"x"), Create("/b"), Delete("/b")])
        assert done == [None, 1, "/b", None]
        assert keeper.multi([]) == []

    # Watches

    def test_a_watch_reports_creation_change_and_deletion_once_each(
        self, room: Room, one: Opened, two: Opened
    ) -> None:
        assert not one.keeper.exists("/a", watch=True)
        two.keeper.create("/a")
        room.settle(one)
        two.keeper.set("/a", b"not watched")
        room.settle(one)
        one.keeper.get("/a", watch=True)
        two.keeper.set("/a", b"1")
        room.settle(one)
        one.keeper.exists("/a", watch=True)
        two.keeper.delete("/a")
        room.settle(one)
        assert one.news == [
            Event(WatchEventType.CREATED, "/a"),
            Event(WatchEventType.CHANGED, "/a"),
            Event(WatchEventType.DELETED, "/a"),
        ]
        assert two.news == []

    def test_a_watch_of_children_reports_those_that_come_and_go(
        self, room: Room, one: Opened, two: Opened
    ) -> None:
        two.keeper.create("/ids")
        one.keeper.children("/ids", watch=True)
        two.keeper.set("/ids", b"its own data")
        two.keeper.create("/ids/1", ephemeral=True)
        two.keeper.set("/ids/1", b"a child's data")
        room.settle(one)
        assert one.news == [Event(WatchEventType.CHILDREN, "/ids")]
        assert one.keeper.children("/ids", watch=True) == ["1"]
        room.expire(two)
        room.settle(one)
        assert one.news == [Event(WatchEventType.CHILDREN, "/ids")] * 2
        assert one.keeper.children("/ids", watch=True) == []

    def test_a_deletion_is_reported_once_to_all_watches_of_a_session(
        self, room: Room, one: Opened, two: Opened
    ) -> None:
        two.keeper.create("/a")
        one.keeper.get("/a", watch=True)
        one.keeper.exists("/a", watch=True)
        one.keeper.children("/a", watch=True)
        two.keeper.delete("/a")
        two.keeper.create("/a")
        room.settle(one)
        assert one.news == [Event(WatchEventType.DELETED, "/a")]

    def test_a_session_is_notified_of_its_own_changes(self, room: Room, one: Opened) -> None:
        one.keeper.create("/a")
        one.keeper.get("/a", watch=True)
        one.keeper.set("/a", b"")
        room.settle(one)
        assert one.news == [Event(WatchEventType.CHANGED, "/a")]

    def test_a_watch_is_not_set_where_there_is_no_node(
        self, room: Room, one: Opened, two: Opened
    ) -> None:
        for attempt in (one.keeper.get, one.keeper.children):
            with pytest.raises(NoNode):
                attempt("/a", watch=True)
        two.keeper.create("/a")
        room.settle(one)
        assert one.news == []

    def test_a_failed_multi_notifies_no_session(self, room: Room, one: Opened, two: Opened) -> None:
        two.keeper.create("/a")
        one.keeper.get("/a", watch=True)
        one.keeper.children("/", watch=True)
        with pytest.raises(BadVersion):
            two.keeper.multi([Set("/a", b"x"), Create("/b"), Check("/a", 9)])
        room.settle(one)
        assert one.news == []

    def test_the_root_is_always_there(self, keeper: Keeper) -> None:
        assert keeper.exists("/")
        assert keeper.get("/").data == b""
        for refused in (keeper.create, keeper.delete):
            with pytest.raises(ValueError, match="cannot be created or deleted"):
                refused("/")
