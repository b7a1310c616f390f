"""Sessions in a file: whom time ends, what earlier versions left, what a held lock does."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.keeper import sqlite as room
from barnabas.keeper.keeper import Event, SessionExpired, SessionState, WatchEventType
from barnabas.keeper.sqlite import SqliteKeeper
from tests.waiting import WAIT_S

TIMEOUT_MS = 3_000

_SCHEMA_1 = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX node_by_parent ON node (parent, path);
INSERT INTO node VALUES ('/brokers', '', x'', 0);
INSERT INTO node VALUES ('/brokers/topics', '/brokers', x'', 0);
INSERT INTO node VALUES ('/brokers/topics/t', '/brokers/topics', x'7b7d', 4);
PRAGMA user_version = 1;
"""


class Time:
    def __init__(self) -> None:
        self.now_ms = 50_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "keeper")


class Opened:
    def __init__(self, file: str, clock: Time, timeout_ms: int = TIMEOUT_MS) -> None:
        self.news: list[Event | SessionState] = []
        self.keeper = SqliteKeeper(file, timeout_ms, self.news.append, clock=clock)


@pytest.fixture
def one(file: str, clock: Time) -> Iterator[Opened]:
    opened = Opened(file, clock)
    yield opened
    opened.keeper.close()


@pytest.fixture
def two(file: str, clock: Time) -> Iterator[Opened]:
    opened = Opened(file, clock)
    yield opened
    opened.keeper.close()


def test_a_file_of_the_first_version_opens_with_all_that_was_in_it(file: str) -> None:
    before = sqlite3.connect(file)
    before.executescript(_SCHEMA_1)
    before.close()
    for _ in range(2):
        keeper = SqliteKeeper(file)
        assert keeper.children("/") == ["brokers"]
        assert keeper.children("/brokers/topics") == ["t"]
        assert keeper.get("/brokers/topics/t")[:2] == (b"{}", 4)
        keeper.close()
    keeper = SqliteKeeper(file)
    assert keeper.create("/brokers/topics/n", sequential=True) == "/brokers/topics/n0000000001"
    keeper.close()


def test_a_session_without_a_lock_is_over_when_it_is_late(
    one: Opened, file: str, clock: Time
) -> None:
    """As one of the version before, or where the system has no such locks."""
    before = sqlite3.connect(file)
    before.execute("UPDATE session SET locked = 0")
    before.commit()
    before.close()
    one.keeper._file.locks.close()
    one.keeper.create("/one", ephemeral=True)
    other = SqliteKeeper(file, clock=clock)
    other.create("/two")
    assert other.exists("/one")
    clock.now_ms += TIMEOUT_MS
    other.create("/three")
    assert not other.exists("/one")
    other.close()


def test_a_session_that_renews_lives_and_one_that_does_not_is_ended_by_another(
    one: Opened, two: Opened, clock: Time
) -> None:
    one.keeper.create("/one", ephemeral=True)
    two.keeper.create("/two", ephemeral=True)
    two.keeper.exists("/one", watch=True)
    for _ in range(10):
        clock.now_ms += TIMEOUT_MS // 3
        one.keeper.tick()
        two.keeper.tick()
    assert two.keeper.children("/") == ["one", "two"]
    for _ in range(2):
        clock.now_ms += TIMEOUT_MS // 2
        two.keeper.tick()
    assert two.news == [Event(WatchEventType.DELETED, "/one")]
    assert two.keeper.children("/") == ["two"]
    with pytest.raises(SessionExpired):
        one.keeper.create("/zombie")
    assert one.news == [SessionState.EXPIRED]
    one.keeper.tick()
    assert one.news == [SessionState.EXPIRED]


def test_a_write_of_anybody_ends_who_is_late(one: Opened, file: str, clock: Time) -> None:
    """A broker that stands for controller does not wait until another process looks."""
    one.keeper.create("/controller", ephemeral=True)
    other = SqliteKeeper(file, clock=clock)
    clock.now_ms += TIMEOUT_MS
    other.create("/controller")
    other.close()
    one.keeper.tick()
    assert one.news == [SessionState.EXPIRED]


def test_late_is_not_expired_while_nobody_has_noticed(one: Opened, clock: Time) -> None:
    one.keeper.create("/a", ephemeral=True)
    clock.now_ms += 10 * TIMEOUT_MS
    one.keeper.set("/a", b"still mine")
    one.keeper.tick()
    assert one.news == []


def test_sessions_end_with_the_boot(
    file: str, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = Opened(file, clock, timeout_ms=1_000_000)
    crashed.keeper.create("/a", ephemeral=True)
    monkeypatch.setattr(room, "_boot_id", lambda: "another")
    after = Opened(file, clock)
    assert not after.keeper.exists("/a")
    after.keeper.close()
    crashed.keeper.close()


def test_a_clock_that_started_again_ends_sessions_too(file: str, clock: Time) -> None:
    """Where the system has no id for a boot."""
    crashed = Opened(file, clock)
    crashed.keeper.create("/a", ephemeral=True)
    clock.now_ms = 5
    after = Opened(file, clock)
    assert not after.keeper.exists("/a")
    after.keeper.close()
    crashed.keeper.close()


def test_time_in_which_nobody_could_renew_ends_nobody(
    one: Opened, two: Opened, file: str, clock: Time
) -> None:
    """As when a process is stopped within its transaction, and goes on much later."""
    one.keeper.create("/a", ephemeral=True)
    stopped = sqlite3.connect(file, isolation_level=None)
    stopped.execute("BEGIN IMMEDIATE")
    for opened in (one, two):  # a test need not wait for ten seconds
        opened.keeper._session._file.busy_ms_max = 1  # type: ignore[union-attr]
    clock.now_ms += TIMEOUT_MS // 2
    one.keeper.tick()
    two.keeper.tick()
    assert one.news == two.news == [SessionState.SUSPENDED]
    clock.now_ms += 5 * TIMEOUT_MS
    stopped.execute("ROLLBACK")
    stopped.close()
    two.keeper.tick()
    one.keeper.tick()
    assert one.news == two.news == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert two.keeper.exists("/a")


def test_processes_that_were_all_held_up_do_not_end_each_other(
    one: Opened, two: Opened, clock: Time
) -> None:
    """As when a machine is frozen and goes on: the first one is no better than the others."""
    one.keeper.create("/one", ephemeral=True)
    clock.now_ms += 10 * TIMEOUT_MS
    two.keeper.create("/two", ephemeral=True)
    two.keeper.tick()
    two.keeper.tick()
    one.keeper.tick()
    assert two.keeper.children("/") == ["one", "two"]
    for _ in range(4):
        clock.now_ms += TIMEOUT_MS // 3
        two.keeper.tick()
    assert two.keeper.children("/") == ["two"]


def test_a_thread_renews_and_tells(file: str) -> None:
    """The real clock: sessions older than their timeout."""
    from queue import SimpleQueue

    heard: SimpleQueue[Event | SessionState] = SimpleQueue()
    timeout_ms = 6_000
    one, two = SqliteKeeper(file, timeout_ms, heard.put), SqliteKeeper(file, timeout_ms)
    two.create("/a", ephemeral=True)
    started = room._monotonic_ms()
    count = 0
    while room._monotonic_ms() < started + timeout_ms * 11 // 10:
        one.get("/a", watch=True)
        count = two.set("/a", b"")
        assert heard.get(timeout=WAIT_S) == Event(WatchEventType.CHANGED, "/a")
    assert count > 2
    one.exists("/a", watch=True)
    two.close()
    assert heard.get(timeout=WAIT_S) == Event(WatchEventType.DELETED, "/a")
    one.close()
    assert heard.empty()


def test_a_timeout_too_short_to_renew_is_refused(file: str) -> None:
    with pytest.raises(ValueError, match="the minimum is 100"):
        SqliteKeeper(file, 10)
    with pytest.raises(ValueError, match="others can open"):
        SqliteKeeper(":memory:", 10_000)


def test_an_owner_that_stands_still_for_the_timeout_loses_its_session(
    one: Opened, two: Opened, clock: Time
) -> None:
    """Though the thread that renews it goes on."""
    stopped_at = clock.now_ms
    one.keeper.create("/here", ephemeral=True)
    one.keeper.bind_to_owner(lambda: clock.now_ms - stopped_at)
    while clock.now_ms < stopped_at + TIMEOUT_MS:
        assert two.keeper.exists("/here")
        clock.now_ms += 100
        one.keeper.tick()
        two.keeper.tick()
    assert not two.keeper.exists("/here")
    one.keeper.tick()
    assert one.news == [SessionState.EXPIRED]
    with pytest.raises(SessionExpired):
        one.keeper.set("/", b"written under an authority that has ended")


def test_an_owner_that_moves_again_in_time_keeps_its_session(
    one: Opened, two: Opened, clock: Time
) -> None:
    moved_at = clock.now_ms
    one.keeper.create("/here", ephemeral=True)
    one.keeper.bind_to_owner(lambda: clock.now_ms - moved_at)
    for _ in range(5):
        for _ in range(TIMEOUT_MS // 100 - 1):
            clock.now_ms += 100
            one.keeper.tick()
            two.keeper.tick()
        moved_at = clock.now_ms
        one.keeper.tick()
    assert two.keeper.exists("/here")
    assert one.news == []
