"""`barnabas demo`, as a user runs it: from the first record to counts that agree."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.spark.kills.processes import descendants
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S, WAIT_S


def test_the_demo_prints_its_steps_and_the_counts_agree(spark: Any, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "barnabas", "demo", "-n", "20000"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=2 * PROGRAM_S,
        check=False,
    )
    assert ended.returncode == 0, ended
    assert ended.stderr == ""
    for line in (
        "sent                                  20,000    19,960      40",
        "topic orders                          20,000",
        "orders-revenue: windows                         19,960",
        "orders-lake: Iceberg                            19,960",
        "orders-lake and topic, as one                   19,960",
        "orders-lake: dead letters                                   40",
        "orders-mirror: the other cluster      20,000",
        "orders-revenue    0",
        "orders-lake       0",
        "orders-mirror     0",
        "All counts agree",
    ):
        assert line in ended.stdout, ended.stdout
    assert not any(tmp_path.iterdir())


def test_a_demo_that_is_stopped_also_ends_its_brokers_and_spark(spark: Any, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "demo"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("✔ Spark"):
        assert process.poll() is None
    family = descendants(process.pid)
    assert len(family) >= 3  # two brokers, and Java with what it has started
    process.terminate()
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + signal.SIGTERM
    deadline = time.monotonic() + WAIT_S
    while any(Path(f"/proc/{pid}").exists() for pid in family):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not any(tmp_path.glob("barnabas-*"))
