"""The plugin in a pytest of its own: what it prints, what it costs, what it leaves behind."""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
COUNT = int(os.environ.get("FIXTURE_TESTS", "60"))

FAILING = """
import pytest

def test_behind(kafka):
    kafka.create_topic("orders", 2)
    kafka.produce("orders", [b"x"], partition=1)
    assert kafka.values("orders") == []

@pytest.mark.kafka(broker=3)
def test_misspelled(kafka):
    pass
"""
UNUSED = """
import sys

def test_nothing():
    loaded = [name for name in sys.modules if name.startswith("barnabas.")]
    assert not [name for name in loaded if name.startswith(("barnabas.broker", "barnabas.client"))]
    assert "asyncio" not in sys.modules
"""
REWRITTEN = """
import sys

def test_rewritten(kafka):
    kafka.create_topic("orders")
    rewritten = [name for name, module in [*sys.modules.items()]
                 if "Rewriting" in type(getattr(module, "__loader__", None)).__name__]
    assert "test_it" in rewritten
    assert not [name for name in rewritten if name.startswith(("barnabas.broker", "barnabas.wire"))]
"""
MANY = """
import os
import threading

import pytest

def open_files():
    return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                  if os.path.exists(f"/proc/self/fd/{fd}"))

@pytest.fixture(scope="session", autouse=True)
def nothing_left():
    from barnabas.testing import Kafka
    with Kafka() as first:  # what is made once: codes, modules
        first.create_topic("orders")
        first.produce("orders", [b"x"])
        assert first.values("orders") == [b"x"]
    files, threads = open_files(), threading.active_count()
    yield
    assert threading.active_count() == threads, threading.enumerate()
    assert len(open_files()) <= len(files), (files, open_files())

@pytest.mark.parametrize("number", range(COUNT))
def test_one(kafka, number):
    os.makedirs(DIRECTORIES, exist_ok=True)
    open(os.path.join(DIRECTORIES, os.path.basename(kafka.directory)), "w").write(kafka.directory)
    kafka.create_topic("orders")
    kafka.produce("orders", [b"x"])
    assert kafka.values("orders") == [b"x"]
"""


def run(
    directory: Path, text: str, *options: str, autoload: bool = False
) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    if not autoload:
        command += ["-p", "barnabas.testing.plugin"]
        env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [*command, *options],
        cwd=directory,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_failed_test_shows_what_its_broker_has(tmp_path: Path) -> None:
    done = run(tmp_path, FAILING)
    assert "topic 'orders': 0: 0 to 0, 1: 0 to 1" in done.stdout
    assert "no groups" in done.stdout
    assert "@pytest.mark.kafka takes brokers, clock, settings, process" in done.stdout
    assert "1 failed, 1 error" in done.stdout


def test_a_suite_that_does_not_use_it_loads_nothing_of_a_broker(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, UNUSED).stdout


def test_the_broker_of_a_failed_test_can_be_looked_at_in_a_console(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    failed = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-s", "--kafka-keep", "-p", "barnabas.testing.plugin"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with failed:
        assert failed.stdout is not None
        found = (re.search(r"http://[\d.:]+", line) for line in failed.stdout)
        address = next(each[0] for each in found if each)
        with urllib.request.urlopen(f"{address}/topics.json", timeout=WAIT_S) as page:
            assert b"orders" in page.read()
        failed.communicate("\n")


def test_modules_are_loaded_as_in_any_program(tmp_path: Path) -> None:
    done = run(tmp_path, REWRITTEN, autoload=True)
    assert "1 passed" in done.stdout, done.stdout[-3000:]


def test_many_tests_leave_nothing_behind(tmp_path: Path) -> None:
    directories = tmp_path / "directories"
    text = MANY.replace("COUNT", str(COUNT)).replace("DIRECTORIES", repr(str(directories)))
    done = run(tmp_path, text, "-p", "xdist", "-n", "2")
    assert f"{COUNT} passed" in done.stdout, done.stdout[-3000:]
    used = [Path(file.read_text()) for file in directories.iterdir()]
    assert len(used) == COUNT
    pids = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in pids.stdout
    assert not [directory for directory in used if directory.exists()]
