"""`barnabas pipeline`, as far as it goes without Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

pytest.importorskip("yaml", reason="PyYAML is not installed")


def barnabas(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas", "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_mistakes_are_lines_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text("name: x\nkind: laek\nsource: {servers: 'h:1', topics: [t]}\nsinc: {}\n")
    for command in ("run", "dry-run"):
        done = barnabas(command, str(path))
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.splitlines() == [
            "barnabas: kind: 'laek': use stream or lake or mirror; did you mean lake?",
            "barnabas: run.checkpoint: missing: a directory in which Spark keeps the progress",
            "barnabas: sinc: {}: no such key; did you mean sink?",
        ]


def test_a_spec_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = barnabas("dry-run", str(tmp_path / "none.yml"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_upkeep_of_what_is_no_table_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(
        "name: x\nkind: lake\nsource: {servers: 'h:1', topics: [t]}\n"
        f"sink: {{path: {tmp_path}/lake}}\nrun: {{checkpoint: {tmp_path}/c}}\n"
    )
    command = [sys.executable, "-m", "barnabas", "lake", "maintain", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "barnabas: x: only lakes in Delta or Iceberg need upkeep, and this is parquet\n"
    )
