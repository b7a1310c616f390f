"""The examples of docs/CLIENT.md: they run as they stand, and a type checker has nothing to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client_e2e.conftest import Served
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/CLIENT.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(served: Served, topic: str, tmp_path: Path, number: int) -> None:
    source = EXAMPLES[number].replace("localhost:9092", served.bootstrap_servers)
    source = re.sub(r'"(greetings|numbers|orders|events|readers)"', rf'"\1-{topic}"', source)
    script = tmp_path / "example.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_examples_pass_a_strict_type_checker(tmp_path: Path) -> None:
    for number, source in enumerate(EXAMPLES):
        (tmp_path / f"example_{number}.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", *tmp_path.glob("*.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
