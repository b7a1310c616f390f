"""The way from nothing to TLS, logins and access rules in docs/SECURITY.md, run as it stands."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_ports_from
from tests.process import READY
from tests.support.cache import ROOT
from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/SECURITY.md").read_text()
(SECTION,) = re.findall(r"^## From nothing to .*?(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
ADDRESS = "127.0.0.1:9093"
REFUSED = ("barnabas: ", "DENIED: ")


@contextmanager
def running(command: str, directory: Path, environment: dict[str, str]) -> Iterator[None]:
    """The broker, which stays in the foreground of another terminal."""
    with (
        open(directory / "broker.log", "wb") as log,
        subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            assert READY.match(ready), (ready, (directory / "broker.log").read_text())
            yield
        finally:
            process.terminate()
        assert process.wait(WAIT_S) == 0
    assert "Traceback" not in (directory / "broker.log").read_text()


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command, and the lines that the page shows of what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With `barnabas` and `python` on the path."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name, arguments in (("barnabas", " -m barnabas"), ("python", "")):
        program = directory / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


class Reader:
    """Does what the page says, as its reader would."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment

    def write_file(self, text_before: str, content: str) -> None:
        """The last name in the text is the name of the file."""
        name = re.findall(r"`(\w+\.properties)`", text_before)[-1]
        (self.directory / name).write_text(content)

    def run(self, command: str, shown: list[str]) -> None:
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        is_refused = bool(shown) and shown[0].startswith(REFUSED)
        assert (ended.returncode != 0) is is_refused, (command, ended.stdout)
        if shown:
            assert ended.stdout.splitlines()[: len(shown)] == shown, command
        assert "Traceback" not in ended.stdout

    def run_program(self, source: str) -> None:
        (self.directory / "program.py").write_text(source)
        self.run("python -W error program.py", ["b'hello'", "b'again'"])


def test_the_section_takes_a_new_user_to_tls_logins_and_rules(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    section = SECTION.replace(ADDRESS, f"127.0.0.1:{free_ports_from(1)}")
    before, up, after = re.split(r"^\$ (barnabas up .*)\n", section, flags=re.MULTILINE)
    (tmp_path / "work").mkdir()
    reader = Reader(tmp_path / "work", environment)

    def follow(text: str) -> None:
        pieces = re.split(r"```(console|properties|python)\n(.*?)```", text, flags=re.DOTALL)
        for said, kind, block in zip(pieces[0::3], pieces[1::3], pieces[2::3], strict=False):
            if kind == "properties":
                reader.write_file(said, block)
            elif kind == "python":
                reader.run_program(block)
            else:
                for command, shown in commands(block):
                    reader.run(command, shown)

    follow(before)
    with running(up, reader.directory, environment):
        follow(after.partition("```\n")[2])
    for name in ("admin.password", "alice.password", "barnabas-data/keeper.db"):
        assert (reader.directory / name).stat().st_mode & 0o077 == 0
