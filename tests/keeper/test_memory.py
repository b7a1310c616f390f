"""What the keeper in memory does on request: time, and all that can go wrong."""

import pytest

from barnabas.keeper.keeper import (
    Create,
    Disconnected,
    Event,
    NodeExists,
    OutcomeUnknown,
    SessionExpired,
    SessionState,
    WatchEventType,
)
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.model.errors import KafkaError

TIMEOUT_MS = 100


class Opened:
    def __init__(self, store: MemoryStore) -> None:
        self.news: list[Event | SessionState] = []
        self.keeper = MemoryKeeper(store, TIMEOUT_MS, self.news.append)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def one(store: MemoryStore) -> Opened:
    return Opened(store)


@pytest.fixture
def two(store: MemoryStore) -> Opened:
    return Opened(store)


def test_time_ends_a_session_that_was_not_renewed(
    store: MemoryStore, one: Opened, two: Opened
) -> None:
    one.keeper.create("/one", ephemeral=True)
    two.keeper.exists("/one", watch=True)
    store.advance(60)
    two.keeper.renew()
    assert store.next_deadline() == 100
    store.advance(99)
    assert two.keeper.exists("/one")
    store.advance(100)
    assert one.news == [SessionState.EXPIRED]
    assert two.news == [Event(WatchEventType.DELETED, "/one")]
    assert store.next_deadline() == 160
    with pytest.raises(SessionExpired):
        one.keeper.renew()


def test_a_disconnected_session_can_do_nothing_and_has_no_watches(
    store: MemoryStore, one: Opened, two: Opened
) -> None:
    one.keeper.create("/one", ephemeral=True)
    one.keeper.get("/one", watch=True)
    store.disconnect(one.keeper.session)
    with pytest.raises(Disconnected):
        one.keeper.get("/one")
    with pytest.raises(Disconnected):
        one.keeper.create("/two")
    two.keeper.set("/one", b"")
    one.keeper.reconnect()
    assert one.news == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert one.keeper.get("/one").version == 1
    assert store.next_deadline() == TIMEOUT_MS


def test_a_session_that_expired_while_disconnected_learns_it_when_it_is_back(
    store: MemoryStore, one: Opened, two: Opened
) -> None:
    one.keeper.create("/one", ephemeral=True)
    store.disconnect(one.keeper.session)
    store.advance(TIMEOUT_MS)
    assert one.news == [SessionState.SUSPENDED]
    with pytest.raises(Disconnected):
        one.keeper.exists("/one")
    one.keeper.reconnect()
    assert one.news == [SessionState.SUSPENDED, SessionState.EXPIRED]
    with pytest.raises(SessionExpired):
        one.keeper.exists("/one")
    assert not MemoryKeeper(store).exists("/one")


@pytest.mark.parametrize("done", [True, False])
def test_a_write_whose_answer_is_lost_may_be_done_or_not(
    store: MemoryStore, one: Opened, two: Opened, done: bool
) -> None:
    two.keeper.exists("/a", watch=True)
    store.fail_next_write(one.keeper.session, done=done)
    with pytest.raises(OutcomeUnknown) as unknown:
        one.keeper.create("/a", ephemeral=True)
    assert isinstance(unknown.value, KafkaError), "a broker can answer a client with it"
    assert two.keeper.exists("/a") is done
    assert two.news == [Event(WatchEventType.CREATED, "/a")] * done
    one.keeper.reconnect()
    if done:
        assert one.keeper.get("/a").owner == one.keeper.session
        with pytest.raises(NodeExists):
            one.keeper.create("/a")
    else:
        one.keeper.create("/a")


def test_lost_watches_never_fire(store: MemoryStore, one: Opened, two: Opened) -> None:
    one.keeper.exists("/a", watch=True)
    one.keeper.children("/", watch=True)
    store.lose_watches(one.keeper.session)
    two.keeper.create("/a")
    assert one.news == []
    one.keeper.children("/", watch=True)
    two.keeper.delete("/a")
    assert one.news == [Event(WatchEventType.CHILDREN, "/")]


def test_a_failed_multi_leaves_every_node_and_number_as_it_was(
    store: MemoryStore, one: Opened
) -> None:
    one.keeper.create("/q")
    with pytest.raises(NodeExists):
        one.keeper.multi([Create("/q/n", sequential=True), Create("/q")])
    assert one.keeper.children("/q") == []
    assert one.keeper.create("/q/n", sequential=True) == "/q/n0000000000"
