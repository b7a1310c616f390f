"""The supervisor, with processes that only say what brokers say."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.brokers.supervisor import PAUSE_S_MAX, PAUSE_S_MIN, Pauses
from tests.waiting import WAIT_S, until

_BROKER = """
import os, signal, sys
number, port, how = sys.argv[1:4]
port = port if port != "0" else "700" + number
def note(what):
    with open(os.environ["NOTES"], "a") as notes:
        print(what, number, file=notes)
def ended(*_):
    note("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
note("started")
if how == "fails":
    print("barnabas failed: no room", flush=True)
    sys.exit(1)
if how != "mute":
    print(f"barnabas ready on 127.0.0.1:{port} (1 ms)", flush=True)
if not sys.stdin.buffer.read():
    ended()
"""
_SUPERVISOR = """
import sys
from functools import partial
from barnabas.cli.brokers.forked import Forked
from barnabas.cli.brokers.supervisor import Supervisor
def broker(number, how, port):
    sys.argv = ["broker", str(number), str(port), how]
    try:
        exec(script, {})
    except SystemExit as end:
        return end.code
def start(number, how, port):
    return Forked(f"broker-{number}", partial(broker, number, how, port))
def ready(addresses):
    print("ready", addresses, flush=True)
script = open(sys.argv[1]).read()
starts = [(i + 1, partial(start, i + 1, how)) for i, how in enumerate(sys.argv[2:])]
sys.exit(Supervisor(starts, ready).run())
"""


class Running:
    """A supervisor of such brokers."""

    def __init__(self, directory: Path, *hows: str) -> None:
        script = directory / "broker.py"
        script.write_text(_BROKER)
        self._notes = directory / "notes"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SUPERVISOR, str(script), *hows],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NOTES": str(self._notes), "PYTHONUNBUFFERED": "1"},
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def complains(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline().strip()

    def pids(self, count: int) -> dict[int, int]:
        """Of the brokers that say they are there."""
        lines = [self.says() for _ in range(count)]
        return {int(line.split()[1]): int(line.split()[-1]) for line in lines}

    def noted(self, what: str) -> list[str]:
        """By the brokers, in the order of time."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [line for line in lines if line.startswith(what)]

    def stopped(self) -> list[str]:
        return self.noted("stopped")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path, "", "", "")
    yield running
    running.end()


def test_all_are_reported_and_stopped_one_after_the_other(three: Running) -> None:
    assert set(three.pids(3)) == {1, 2, 3}
    assert three.says() == "ready 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003"
    three.process.send_signal(signal.SIGTERM)
    assert three.process.wait(WAIT_S) == 0
    assert three.stopped() == ["stopped 3", "stopped 2", "stopped 1"]


def test_a_wish_to_stop_that_comes_twice_at_once_is_one(three: Running) -> None:
    three.pids(3)
    three.says()
    three.process.send_signal(signal.SIGTERM)
    three.process.send_signal(signal.SIGINT)
    assert three.process.wait(WAIT_S) == 0
    assert three.stopped() == ["stopped 3", "stopped 2", "stopped 1"]


def test_the_one_that_dies_is_started_again_and_the_cause_is_said(three: Running) -> None:
    pids = three.pids(3)
    three.says()
    os.kill(pids[2], signal.SIGKILL)
    assert three.complains() == (
        f"barnabas: broker 2, process {pids[2]}, was killed by SIGKILL; starting it again in 0.1 s"
    )
    back = three.complains()
    assert back.startswith("barnabas: broker 2 on 127.0.0.1:7002, process ")
    assert back.endswith(", is back")
    three.process.send_signal(signal.SIGINT)
    assert three.process.wait(WAIT_S) == 0
    assert three.stopped() == ["stopped 3", "stopped 2", "stopped 1"]


def test_one_that_cannot_start_ends_the_whole_with_its_reason(tmp_path: Path) -> None:
    running = Running(tmp_path, "", "fails", "mute")
    assert running.process.wait(WAIT_S) == 1
    _, err = running.process.communicate()
    assert "barnabas: broker 2 cannot start: ended with 1: no room" in err


def test_brokers_stop_cleanly_when_nobody_reads_what_is_said_of_them(three: Running) -> None:
    assert three.process.stdout is not None
    three.process.stdout.close()
    assert three.process.wait(WAIT_S) != 0
    stopped = [line.split()[1] for line in three.stopped()]
    assert len(stopped) == len(set(stopped))
    started = [line.split()[1] for line in three.noted("started")]
    assert set(started) <= set(stopped), "one that is still starting may just end"
    assert started


def test_brokers_stop_when_their_supervisor_is_killed(three: Running) -> None:
    three.pids(3)
    three.says()
    three.process.kill()
    until(lambda: len(three.stopped()) >= 3)
    assert sorted(three.stopped()) == ["stopped 1", "stopped 2", "stopped 3"]


def test_pauses_double_and_start_again_after_a_long_life() -> None:
    pauses = Pauses()
    waits = [pauses.after(1) for _ in range(10)]
    assert waits[:3] == [PAUSE_S_MIN, 2 * PAUSE_S_MIN, 4 * PAUSE_S_MIN]
    assert waits[-1] == PAUSE_S_MAX
    assert pauses.after(3600) == PAUSE_S_MIN
