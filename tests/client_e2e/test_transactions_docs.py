"""The examples of docs/TRANSACTIONS.md: they run as they stand, and a type checker accepts them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas.sync
from tests.client_e2e.conftest import Served
from tests.client_e2e.test_workers_docs import _mypy
from tests.support.cache import ROOT
from tests.support.java import kafka_tools
from tests.waiting import PROGRAM_S

PAGE = (ROOT / "docs/TRANSACTIONS.md").read_text()
OWN_CLIENT, OTHER_CLIENT, ADMIN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(JAVA,) = re.findall(r"```java\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("name", ["own", "other", "java"])
def test_an_example_commits_both_records(
    served: Served, topic: str, tmp_path: Path, name: str
) -> None:
    invoices = f"{topic}-invoices"
    with barnabas.sync.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        for each in (topic, invoices):
            admin.create_topic(each)
    source = {"own": OWN_CLIENT, "other": OTHER_CLIENT, "java": JAVA}[name]
    source = source.replace("127.0.0.1:9092", served.bootstrap_servers)
    source = source.replace('"orders"', f'"{topic}"').replace('"invoices"', f'"{invoices}"')
    source = source.replace('"billing-1"', f'"{topic}"')
    script = tmp_path / ("Billing.java" if name == "java" else "billing.py")
    script.write_text(source)
    command = [sys.executable, "-W", "error", str(script)]
    if name == "java":
        command = kafka_tools().command(str(script))
    _run(command)
    with barnabas.sync.Consumer(
        topic,
        invoices,
        bootstrap_servers=served.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
    ) as consumer:
        values = sorted(consumer.getone(timeout=PROGRAM_S).value or b"" for _ in range(2))
    assert values == [b"12.50", b"paid"]


def test_the_example_of_an_administrator_runs(served: Served, topic: str, tmp_path: Path) -> None:
    with barnabas.sync.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        admin.create_topic(topic)
    script = tmp_path / "admin.py"
    source = ADMIN.replace("127.0.0.1:9092", served.bootstrap_servers)
    script.write_text(source.replace('"orders"', f'"{topic}"'))
    assert _run([sys.executable, str(script)]).endswith("0 partitions with open transactions\n")


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_pass_a_strict_type_checker(tmp_path: Path) -> None:
    files = [tmp_path / f"example_{number}.py" for number in range(3)]
    for file, source in zip(files, (OWN_CLIENT, OTHER_CLIENT, ADMIN), strict=True):
        file.write_text(source)
    checked = _mypy(*files)
    assert checked.returncode == 0, checked.stdout
