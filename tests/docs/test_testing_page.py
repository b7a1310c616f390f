"""The code of docs/TESTING.md runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.testing import Kafka
from tests.waiting import WAIT_S

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/TESTING.md").read_text()


@pytest.mark.full
def test_the_programs_of_the_page_run() -> None:
    programs = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "import" in code]
    assert len(programs) == 2
    for program in programs:
        subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=WAIT_S)


def test_every_helper_of_the_page_exists() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.M)
    names = {name for row in rows for name in re.findall(r"`(\w+)(?:\(|`)", row)}
    for name in names - {"kafka", "kafka_cluster", "kafka_session"}:
        assert hasattr(Kafka, name), name
