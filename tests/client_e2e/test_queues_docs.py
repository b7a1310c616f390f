"""The examples of docs/QUEUES.md: they run as they stand, and a type checker has nothing to say."""

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import barnabas.sync
from tests.client_e2e.conftest import Served, skip_without_share_groups
from tests.client_e2e.delaying import delayer
from tests.process import BrokerProcess
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/QUEUES.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(served: Served, topic: str, tmp_path: Path, number: int) -> None:
    if "ShareConsumer" in EXAMPLES[number]:
        skip_without_share_groups(served)
    if "delivery.delay" in EXAMPLES[number] and not isinstance(served, BrokerProcess):
        pytest.skip("it needs an option of Barnabas")
    source = EXAMPLES[number].replace("localhost:9092", served.bootstrap_servers)
    source = re.sub(r'(b?)"(jobs|workers|reminders|later|orders)"', rf'\1"\2-{topic}"', source)
    script = tmp_path / "example.py"
    script.write_text(source)
    with ExitStack() as running:
        if "deliver-at" in source:
            create_topic(served, f"orders-{topic}")
            log = tmp_path / "delayer.log"
            running.enter_context(delayer(served.bootstrap_servers, log, f"later-{topic}"))
        run_example(script)


def create_topic(served: Served, topic: str) -> None:
    with barnabas.sync.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions=1)


def run_example(script: Path) -> None:
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
