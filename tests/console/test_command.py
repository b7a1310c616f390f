"""`barnabas console` and `barnabas up --console`, as processes."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.waiting import until

COMMAND = [sys.executable, "-m", "barnabas"]


def test_up_starts_a_console_that_ends_with_it() -> None:
    with subprocess.Popen(
        [*COMMAND, "up", "--ephemeral", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("barnabas ready on")
        said = re.search(r"console on (http://\S+)", process.stdout.readline())
        assert said is not None
        with urlopen(f"{said[1]}topics.json") as answer:
            assert answer.read().strip() == b"[]"
        [console] = (pid for pid in children_of(process.pid) if b"console" in command_line(pid))
        process.terminate()
        assert process.wait() == 0
    # Not by its address: another test may listen there by now.
    until(lambda: not Path(f"/proc/{console}").exists())


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def command_line(pid: str) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["console", "--listen", "0.0.0.0:0"], "use --token"),
        (["console", "--users"], "security.protocol"),
        (["up", "--console", "0.0.0.0:0"], "barnabas console --token"),
    ],
)
def test_what_would_be_open_to_others_is_refused(arguments: list[str], words: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr
