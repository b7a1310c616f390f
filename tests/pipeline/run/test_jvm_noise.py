"""What is kept off the terminal of all that Spark's processes say."""

import subprocess
import sys

import pytest

from barnabas.pipeline.run.jvm_noise import quietly
from tests.waiting import until

TRACE = "Traceback (most recent call last):"
FRAME = '  File "pyspark/daemon.py", line 95, in worker'


def shown(capfd: pytest.CaptureFixture[str], *lines: str) -> str:
    with quietly():
        said = subprocess.Popen([sys.executable, "-c", "import sys; sys.stderr.write(sys.argv[1])",
                                 "".join(f"{line}\n" for line in lines)])  # fmt: skip
    said.wait()
    found: list[str] = []

    def whole() -> bool:
        found.append(capfd.readouterr().err)
        return "last\n" in "".join(found)

    until(whole, lambda: found)
    return "".join(found)


def test_traces_and_stacks_are_left_out_though_workers_write_them_at_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BARNABAS_LOG_LEVEL", raising=False)
    said = shown(
        capfd,
        "first",
        *(TRACE, TRACE, FRAME, FRAME, "BrokenPipeError: 32", FRAME, "BrokenPipeError: 32"),
        *(TRACE, FRAME, "KeyError: 1", "", "During handling of the above exception, another:", ""),
        *(TRACE, FRAME, "ValueError: 2"),
        *("java.io.IOException: no", "\tat java.io.File", "\t... 3 more"),
        "last",
    )
    assert said == "first\njava.io.IOException: no\nlast\n"
