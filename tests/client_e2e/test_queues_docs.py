"""The examples of docs/QUEUES.md: they run as they stand, and a type checker has nothing to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client_e2e.conftest import Served, skip_without_share_groups
from tests.process import BrokerProcess
from tests.support.cache import ROOT

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/QUEUES.md").read_text(), re.DOTALL)
TIMEOUT_S = 120


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(served: Served, topic: str, tmp_path: Path, number: int) -> None:
    if "ShareConsumer" in EXAMPLES[number]:
        skip_without_share_groups(served)
    if "delivery.delay" in EXAMPLES[number] and not isinstance(served, BrokerProcess):
        pytest.skip("it needs an option of Barnabas")
    source = EXAMPLES[number].replace("localhost:9092", served.bootstrap_servers)
    source = re.sub(r'"(jobs|workers|reminders)"', rf'"\1-{topic}"', source)
    script = tmp_path / "example.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
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
