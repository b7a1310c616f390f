"""What only a real ensemble does: it stops, dies and comes back while it is asked."""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from barnabas.keeper.keeper import (
    Create,
    Disconnected,
    Event,
    OutcomeUnknown,
    SessionExpired,
    SessionState,
    WatchEventType,
    ensure,
)
from barnabas.keeper.zookeeper import MULTI_BYTES_MAX, ZookeeperKeeper
from tests.support.zookeeper import Zookeeper
from tests.waiting import WAIT_S, until
from tests.zookeeper.rooms import TIMEOUT_MS, ZookeeperRoom

SHORT_MS = 10_000


@pytest.fixture
def own(server: Zookeeper) -> Iterator[ZookeeperRoom]:
    """On a server that a test may kill."""
    room = ZookeeperRoom(server)
    yield room
    room.close()


def test_a_server_that_dies_and_comes_back_leaves_the_session_as_it_was(
    own: ZookeeperRoom,
) -> None:
    opened = own.open(timeout_ms=TIMEOUT_MS)
    keeper = opened.keeper
    keeper.create("/mine", ephemeral=True)
    keeper.get("/mine", watch=True)
    own.server.kill()
    until(lambda: SessionState.SUSPENDED in opened.news)
    for attempt in (keeper.get, keeper.exists, keeper.children, keeper.create, keeper.delete):
        with pytest.raises(Disconnected):
            attempt("/mine")
    own.server.start()
    until(lambda: SessionState.CONNECTED in opened.news)
    assert opened.news == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert keeper.get("/mine", watch=True).owner == keeper.session
    keeper.set("/mine", b"")
    until(lambda: Event(WatchEventType.CHANGED, "/mine") in opened.news)


def test_a_write_without_an_answer_is_said_to_be_unknown(own: ZookeeperRoom) -> None:
    opened = own.open(SHORT_MS)
    opened.keeper.create("/a")
    own.server.signal(signal.SIGSTOP)
    try:
        with pytest.raises(OutcomeUnknown, match="no response"):
            opened.keeper.set("/a", b"perhaps")
    finally:
        own.server.signal(signal.SIGCONT)
    until(lambda: bool({SessionState.CONNECTED, SessionState.EXPIRED} & set(opened.news)))
    assert own.open().keeper.get("/a")[:2] in [(b"", 0), (b"perhaps", 1)]


def test_no_other_session_takes_the_place_of_one_that_expired(room: ZookeeperRoom) -> None:
    opened = room.open()
    keeper = opened.keeper
    assert isinstance(keeper, ZookeeperKeeper)
    room.expire(opened)
    assert opened.news == [SessionState.SUSPENDED, SessionState.EXPIRED]
    with pytest.raises(OSError, match="has expired"):
        keeper._handler.create_connection()
    with pytest.raises(SessionExpired):
        keeper.create("/zombie")
    keeper.close()
    assert not room.open().keeper.exists("/zombie")


def test_a_listener_that_waits_holds_up_nobody(room: ZookeeperRoom) -> None:
    """It would hang for ever on a thread of kazoo's."""
    go_on, heard = threading.Event(), threading.Event()

    def listen(news: Event | SessionState) -> None:
        keeper.exists("/a")
        heard.set()
        go_on.wait(WAIT_S)

    keeper = ZookeeperKeeper(room.address, TIMEOUT_MS, listen)
    keeper.exists("/a", watch=True)
    keeper.create("/a")
    assert heard.wait(WAIT_S)
    assert keeper.get("/a", watch=True).version == 0
    assert keeper.set("/a", b"") == 1
    go_on.set()
    keeper.close()


def test_each_root_is_a_store_of_its_own(shared_server: Zookeeper) -> None:
    one = ZookeeperKeeper(f"{shared_server.address}/deep/below", TIMEOUT_MS)
    two = ZookeeperKeeper(f"{shared_server.address}/deep", TIMEOUT_MS)
    ensure(one, "/brokers/ids")
    assert two.children("/below") == ["brokers"]
    assert not two.exists("/brokers")
    assert one.create("/brokers/n", sequential=True) == "/brokers/n0000000001"
    assert two.exists("/below/brokers/n0000000001")
    one.close()
    two.close()


def test_nobody_there_is_said_by_address() -> None:
    pytest.importorskip("kazoo")
    with pytest.raises(Disconnected, match=r"127\.0\.0\.1:1: no connection within 200 ms"):
        ZookeeperKeeper("127.0.0.1:1", 10_000, connect_ms_max=200)


def test_what_zookeeper_would_hang_up_on_is_refused_here(room: ZookeeperRoom) -> None:
    keeper = room.open().keeper
    half = bytes(MULTI_BYTES_MAX // 2)
    with pytest.raises(ValueError, match="the limit is 1000000"):
        keeper.multi([Create("/a", half), Create("/b", half)])
    keeper.create("/a", bytes(MULTI_BYTES_MAX - 1000))
    assert len(keeper.get("/a").data) == MULTI_BYTES_MAX - 1000


def test_an_owner_that_stands_still_for_the_timeout_loses_its_session(own: ZookeeperRoom) -> None:
    """Though kazoo's threads go on telling the server that the session lives."""
    opened, other = own.open(SHORT_MS), own.open(timeout_ms=TIMEOUT_MS)
    idle_ms = 0
    opened.keeper.create("/mine", ephemeral=True)
    opened.keeper.bind_to_owner(lambda: idle_ms)
    other.keeper.exists("/mine", watch=True)
    idle_ms = SHORT_MS - 1
    opened.keeper.exists("/mine")
    assert opened.news == [], "it may move again"
    idle_ms = SHORT_MS
    until(lambda: opened.news == [SessionState.EXPIRED], lambda: opened.news)
    until(lambda: other.news == [Event(WatchEventType.DELETED, "/mine")], lambda: other.news)
    with pytest.raises(SessionExpired):
        opened.keeper.exists("/mine")


def test_a_connection_that_is_lost_as_soon_as_it_is_there_ends_no_start(
    shared_server: Zookeeper,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        lost = threading.Event()
        relay = threading.Thread(target=_relay_losing_the_first, args=(door, shared_server, lost))
        relay.start()
        keeper = ZookeeperKeeper(f"127.0.0.1:{door.getsockname()[1]}/lost-at-once", TIMEOUT_MS)
        try:
            assert lost.is_set()
            assert keeper.exists("/")
        finally:
            keeper.close()
            relay.join()


def _relay_losing_the_first(door: socket.socket, server: Zookeeper, lost: threading.Event) -> None:
    host, port = server.address.split(":")
    first, _ = door.accept()
    with first, socket.create_connection((host, int(port))) as there:
        there.sendall(first.recv(4096))  # opens the session
        first.sendall(there.recv(4096))
        first.recv(4096)  # the first request
    lost.set()
    second, _ = door.accept()
    with second, socket.create_connection((host, int(port))) as there:
        answers = threading.Thread(target=_copy, args=(there, second))
        answers.start()
        _copy(second, there)
        answers.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
