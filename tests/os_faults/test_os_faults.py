"""The layer that injects faults, and a share of what `make os-faults` plays in full."""

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import barnabas
from tests.os_faults.__main__ import played, rounds_of
from tests.os_faults.control import (
    ABORTS,
    EINTR,
    EIO,
    ENOSPC,
    FROZEN,
    RUNNING,
    SHORT,
    UNIMPORTANT,
    Action,
    Control,
    Site,
)
from tests.os_faults.rounds import UNMET, recorded
from tests.waiting import WAIT_S, until

SHARE = {1: 8, 3: 4}  # rounds
# Always played: each went wrong once, or would stop a cluster.
SQLITE = "keeper/sqlite_file.py:SqliteFile"
APPEND = "log/segments/segment.py:Segment.append"
CHOSEN = {
    1: {
        ("create", "keeper.db", f"{SQLITE}.__init__", "EIO"),
        ("pwrite", "keeper.db-wal", f"{SQLITE}.execute.<locals>.<lambda>", "EIO"),
        ("pwrite", "segment", APPEND, "ENOSPC"),
        ("open", "segment", "log/segments/segment.py:Segment.file", "EMFILE"),
    },
    3: {("pwrite", "segment", APPEND, "EIO"), ("pwrite", "segment", APPEND, "frozen")},
}
WRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
try:
    print(os.pwrite(fd, b"12345678", 0))
except OSError as error:
    print(error.errno)
"""


# A signal's handler in C writes to a socket; then the program does so itself.
IS_WOKEN = """
import os, signal, socket
reads, writes = socket.socketpair()
for end in reads, writes:
    end.setblocking(False)
signal.set_wakeup_fd(writes.fileno())
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
print(len(reads.recv(8)))
os.write(writes.fileno(), b"12345678")
print(len(reads.recv(8)))
"""


def started(control: Control, data: Path, program: str = WRITES) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, str(data / "0.log")],
        env={**os.environ, **control.env},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def control(tmp_path: Path) -> Control:
    (tmp_path / "data").mkdir()
    return Control(tmp_path, tmp_path / "data")


@pytest.mark.parametrize(
    ("action", "printed"),
    [(EIO, EIO.number), (ENOSPC, ENOSPC.number), (SHORT, 4), (EINTR, 8)],
    ids=lambda value: value.name if isinstance(value, Action) else "",
)
def test_a_fault_befalls_the_call_it_is_meant_for(
    control: Control, tmp_path: Path, action: Action, printed: int
) -> None:
    control.arm(Site(RUNNING, "pwrite", "segment", ""), action)
    with started(control, tmp_path / "data") as process:
        said, _ = process.communicate(timeout=WAIT_S)
    assert int(said) == printed
    assert control.hits


def test_a_frozen_write_goes_on_when_it_is_released(control: Control, tmp_path: Path) -> None:
    control.arm(Site(RUNNING, "pwrite", "segment", ""), FROZEN)
    with started(control, tmp_path / "data") as process:
        until(lambda: control.hits, "the write was not met")
        assert process.poll() is None
        control.disarm()
        said, _ = process.communicate(timeout=WAIT_S)
    assert int(said) == 8


def test_another_kind_of_file_is_left_alone(control: Control, tmp_path: Path) -> None:
    control.arm(Site(RUNNING, "pwrite", "time index", ""), EIO)
    with started(control, tmp_path / "data") as process:
        said, _ = process.communicate(timeout=WAIT_S)
    assert int(said) == 8
    assert not control.hits


def test_a_call_in_a_signal_handler_is_left_alone(control: Control, tmp_path: Path) -> None:
    """The interpreter cannot be asked there where it is: that was a deadlock."""
    control.arm(Site(RUNNING, "write", "socket", ""), SHORT)
    with started(control, tmp_path / "data", IS_WOKEN) as process:
        said, _ = process.communicate(timeout=WAIT_S)
    assert said.split() == ["1", "4"]
    assert control.hits == 1


def test_the_sites_that_are_named_here_exist() -> None:
    """A function that has moved would be an exception for nobody."""
    package = Path(barnabas.__file__).parent
    for _, _, frame, *_ in [*UNIMPORTANT, *ABORTS, *CHOSEN[1], *CHOSEN[3]]:
        path, _, qualified = frame.partition(":")
        name = qualified.split(".<")[0].rpartition(".")[2]
        assert f"def {name}(" in (package / path).read_text(), frame


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("brokers", [1, 3])
def test_no_fault_at_a_call_site_loses_an_acknowledged_record(tmp_path: Path, brokers: int) -> None:
    """A few of all rounds, other ones with another SEED."""
    every = rounds_of(recorded(tmp_path / "recording", brokers))
    count = len({sites for sites, _ in every})
    print(f"{count} call sites on {brokers} broker(s)")
    assert count > 150
    chosen = [(s, a) for s, a in every if (*s[0][1:], a.name) in CHOSEN[brokers]]
    assert len(chosen) == len(CHOSEN[brokers])
    rounds = chosen + Random(os.environ.get("SEED", "1")).sample(every, SHARE[brokers])
    began = time.monotonic()
    outcomes = list(played(tmp_path, brokers, rounds))
    print(f"{len(outcomes)} rounds in {time.monotonic() - began:.0f} s")
    failed = [f"{o.action.name} at {o.site}: {o.failed}" for o in outcomes if o.failed]
    assert not failed
    assert all(outcome.what != UNMET for outcome in outcomes[: len(chosen)])
