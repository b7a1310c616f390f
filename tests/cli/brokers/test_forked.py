"""A process forked from one that holds files, locks and signals of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import WAIT_S

_PARENT = """
import json, os, signal, sys
from barnabas.cli.brokers.forked import Forked

held = open(sys.argv[1], "w")
signal.signal(signal.SIGTERM, lambda *_: None)
signal.set_wakeup_fd(os.open(os.devnull, os.O_WRONLY | os.O_NONBLOCK), warn_on_full_buffer=False)
print("before", end="")

def look():
    files = {int(name): os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{name}")}
    found = {
        "files": [path for number, path in files.items() if number > 2],
        "leads": os.getsid(0) == os.getpid(),
        "name": open("/proc/self/comm").read().strip(),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "default": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    }
    print(json.dumps(found))
    return 7

def wait():
    sys.stdin.read()
    return 0

def fail():
    raise RuntimeError("no luck")

child = Forked("broker-9", {"look": look, "wait": wait, "fail": fail}[sys.argv[2]])
if sys.argv[2] == "wait":
    child.kill()
said = child.stdout.read().decode()
code = child.wait()
print()
print(json.dumps([said, code]))
"""


def run(directory: Path, what: str) -> tuple[str, int, str]:
    """What the child said, how it ended, and what stood on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", _PARENT, str(directory / "held"), what],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    before, last = done.stdout.splitlines()
    assert before == "before"
    said, code = json.loads(last)
    return said, code, done.stderr


def test_it_has_nothing_of_its_parent_but_standard_error(tmp_path: Path) -> None:
    said, code, _ = run(tmp_path, "look")
    found = json.loads(said)
    assert found == {
        "files": [],
        "leads": True,
        "name": "broker-9",
        "blocked": [],
        "default": True,
    }
    assert code == 7


def test_how_it_was_killed_is_reported(tmp_path: Path) -> None:
    assert run(tmp_path, "wait")[1] == -signal.SIGKILL


def test_what_it_did_not_catch_is_on_standard_error(tmp_path: Path) -> None:
    said, code, complaints = run(tmp_path, "fail")
    assert (said, code) == ("", 1)
    assert "RuntimeError: no luck" in complaints
