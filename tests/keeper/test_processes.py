"""Processes on one file: killed, stopped and continued, started all at once."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest

from barnabas.keeper.keeper import Event, SessionState, WatchEventType
from barnabas.keeper.sqlite import SqliteKeeper
from tests.waiting import WAIT_S

TIMEOUT_MS = 600_000  # nobody expires because the machine is busy

_OTHER = """
import sys
from barnabas.keeper.keeper import Unavailable
from barnabas.keeper.sqlite import SqliteKeeper
def heard(news):
    print(news, flush=True)
keeper = SqliteKeeper(sys.argv[1], int(sys.argv[2]), heard)
keeper.create("/other", ephemeral=True)
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(keeper.set("/shared", line.encode()), flush=True)
    except Unavailable as problem:
        print(type(problem).__name__, flush=True)
"""
_FIRST = """
import sys
from barnabas.keeper.keeper import ensure
from barnabas.keeper.sqlite import SqliteKeeper
keeper = SqliteKeeper(sys.argv[1], 600_000)
ensure(keeper, "/brokers/ids")
keeper.create("/brokers/ids/n", sequential=True)
keeper.create("/brokers/ids/mine", ephemeral=True, sequential=True)
keeper.close()
"""


class Other:
    """Another process with a session; it writes what it is given."""

    def __init__(self, file: str, timeout_ms: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _OTHER, file, str(timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.says() == "ready"

    def says(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        if number is signal.SIGSTOP:
            os.waitpid(self._process.pid, os.WUNTRACED)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Here:
    def __init__(self, file: str) -> None:
        self.heard: SimpleQueue[Event | SessionState] = SimpleQueue()
        self._file = file
        self.keeper = SqliteKeeper(file, TIMEOUT_MS, self.heard.put)
        self.keeper.create("/shared")

    def pass_deadlines(self) -> None:
        """As if the others had been stopped for longer than their timeout."""
        with closing(sqlite3.connect(self._file, isolation_level=None)) as file:
            file.execute("UPDATE session SET deadline_ms = 0 WHERE id != ?", (self.keeper.session,))

    def next(self) -> Event | SessionState:
        return self.heard.get(timeout=WAIT_S)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "keeper")


@pytest.fixture
def here(file: str) -> Iterator[Here]:
    opened = Here(file)
    yield opened
    opened.keeper.close()


@pytest.fixture
def other(file: str, here: Here) -> Iterator[Other]:
    started = Other(file, TIMEOUT_MS)
    yield started
    started.end()


def test_a_killed_process_loses_its_ephemeral_nodes_and_the_others_hear_of_it_at_once(
    here: Here, other: Other
) -> None:
    """Long before its timeout: the tests would not wait for that."""
    assert here.keeper.exists("/other", watch=True)
    assert here.keeper.children("/", watch=True) == ["other", "shared"]
    other.signal(signal.SIGKILL)
    assert {here.next(), here.next()} == {
        Event(WatchEventType.DELETED, "/other"),
        Event(WatchEventType.CHILDREN, "/"),
    }
    assert here.keeper.children("/") == ["shared"]


def test_a_killed_process_is_not_in_the_way_of_who_comes_after_it(file: str) -> None:
    """With nobody left to look: as a broker that is started again with its id."""
    first = SqliteKeeper(file)
    other = Other(file, TIMEOUT_MS)
    other.end()
    first.create("/other")
    first.close()


def test_a_stopped_process_that_goes_on_is_notified_and_writes_nothing(
    here: Here, other: Other
) -> None:
    other.write("while it lives")
    assert other.says() == "1"
    here.keeper.exists("/other", watch=True)
    other.signal(signal.SIGSTOP)
    here.pass_deadlines()
    assert here.next() == Event(WatchEventType.DELETED, "/other")
    other.write("as a zombie")
    other.signal(signal.SIGCONT)
    assert {other.says(), other.says()} == {"SessionState.EXPIRED", "SessionExpired"}
    assert here.keeper.get("/shared").version == 1
    here.keeper.create("/other", ephemeral=True)
    other.write("as a zombie of a node that is there again")
    assert other.says() == "SessionExpired"
    assert here.keeper.get("/shared").version == 1


def test_a_process_stopped_for_less_than_its_timeout_goes_on(here: Here, other: Other) -> None:
    other.signal(signal.SIGSTOP)
    here.keeper.create("/seen", ephemeral=True)  # looks for sessions that are over
    other.signal(signal.SIGCONT)
    other.write("")
    assert other.says() == "1"
    assert here.keeper.exists("/other")


def test_processes_that_make_the_file_at_once_all_get_through(file: str) -> None:
    command = [sys.executable, "-c", _FIRST, file]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    for process in started:
        _, said = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, said
    keeper = SqliteKeeper(file)
    names = keeper.children("/brokers/ids")
    keeper.close()
    assert len(names) == len(started)
    assert all(name.startswith("n0") for name in names)
