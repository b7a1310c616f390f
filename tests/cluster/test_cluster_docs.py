"""The commands of docs/CLUSTER.md: they run as they stand, one after the other."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process import ClusterProcess
from tests.support.cache import ROOT
from tests.waiting import WAIT_S

PAGE = (ROOT / "docs/CLUSTER.md").read_text()
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """What the first command starts, on ports of its own."""
    home = tmp_path_factory.mktemp("cluster")
    running = ClusterProcess(3, home / "barnabas-data", log=home / "log")
    running.start()
    yield running
    assert running.stop() == 0
    running.check_log()


def test_the_first_command_is_the_one_the_test_starts(cluster: ClusterProcess) -> None:
    assert COMMANDS[0] == "barnabas up --brokers 3"
    assert set(COMMANDS[0].split()[2:]) <= set(cluster.command())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With `barnabas` on it."""
    directory = tmp_path_factory.mktemp("bin")
    program = directory / "barnabas"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m barnabas "$@"\n')
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def test_the_commands_run_in_their_order(
    cluster: ClusterProcess, path: str, tmp_path: Path
) -> None:
    for command in COMMANDS[1:]:
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=tmp_path,
            env={
                "PATH": path,
                "PYTHONPATH": str(ROOT),
                "BARNABAS_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
            },
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ended.returncode == 0, (command, ended.stderr)
        assert "Traceback" not in ended.stderr
