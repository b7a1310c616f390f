"""The examples of README.md: they run as they stand, and a type checker accepts them."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.client_e2e.conftest import Served
from tests.client_e2e.test_workers_docs import _mypy
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
OTHER_CLIENT, OWN_CLIENT, _ = EXAMPLES


def test_the_first_examples_write_a_record_each_and_read_both(
    served: Served, topic: str, tmp_path: Path
) -> None:
    def script(name: str, source: str) -> list[str]:
        source = source.replace("127.0.0.1:9092", served.bootstrap_servers)
        source = source.replace('"orders"', f'"{topic}"').replace('"billing"', f'"{topic}"')
        (tmp_path / name).write_text(source)
        return [sys.executable, "-u", "-W", "error", str(tmp_path / name)]

    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(script("other.py", OTHER_CLIENT), env=settings, timeout=PROGRAM_S, check=True)
    with subprocess.Popen(
        script("own.py", OWN_CLIENT), env=settings, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(2)]
        finally:
            process.kill()
    assert lines == ["0 b'hello'\n", "1 b'hello'\n"]


def test_the_examples_pass_a_strict_type_checker(tmp_path: Path) -> None:
    files = [tmp_path / f"example_{number}.py" for number in range(len(EXAMPLES))]
    for file, source in zip(files, EXAMPLES, strict=True):
        file.write_text(source)
    checked = _mypy(*files)
    assert checked.returncode == 0, checked.stdout
