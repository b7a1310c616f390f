"""The commands of README.md and of docs/{TESTING,OPERATIONS,CONCEPTS}.md run as they stand.

In a shell, in an empty directory, against a broker that README's own command has started. Names
in capitals are replaced. Commands that do not end get a free port, and end after their ready line.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import barnabas.sync
from tests.docs.concepts import ideas

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
TESTING = (ROOT / "docs/TESTING.md").read_text()
OPERATIONS = (ROOT / "docs/OPERATIONS.md").read_text()
TIMEOUT_S = 300
# Where they run instead: tests/spark, this run itself.
ELSEWHERE = ("pipeline", "demo", "tour")
READY = {"up": "barnabas ready on ", "console": "http://"}
NAMES = {
    "--zookeeper HOST:PORT": "--data ./log",
    "dlq show TOPIC": "dlq show orders.dlq",
    "GROUP": "billing",
    "TOPIC": "orders",
    "KEY": "customer-1",
    "FILE": "./orders.brec",
    "DIR": "./log/orders-0",
}
# Without a terminal; and the store of a broker that is not at the default place.
MORE = {
    "group seek": "-y",
    "cluster elect": "-y",
    "keeper watch": "--data ./log --timeout 0.1",
    "keeper ls": "--data ./log",
}
CHECKS = ("doctor", "log verify")  # they report what they find by exit code 6


def lines(text: str) -> list[str]:
    """Of code blocks: those that call `barnabas`, without their comments."""
    found = re.findall(r"^    ((?:\w[^|\n]* \| )?barnabas .*)$", text, re.M)
    return [line.partition("  #")[0].strip() for line in found]


def in_sentences(text: str) -> list[str]:
    return re.findall(r"`(barnabas [^`]+)`", text)


def filled(command: str) -> str:
    for name, value in NAMES.items():
        command = command.replace(name, value)
    for name, more in MORE.items():
        if f"barnabas {name}" in command and more.split()[0] not in command:
            command += f" {more}"
    return command


def name_of(command: str) -> str:
    return re.sub(r".*?barnabas ", "", command, count=1).split()[0]


ALL = [
    *lines(README),
    *lines(TESTING),
    *lines(OPERATIONS),
    *in_sentences(OPERATIONS),
    *(idea.command for idea in ideas() if idea.command.startswith("barnabas")),
]
ONE_BY_ONE = list(
    dict.fromkeys(filled(each) for each in ALL if name_of(each) not in (*ELSEWHERE, *READY))
)
SERVING = list(dict.fromkeys(each for each in ALL if name_of(each) in READY))


class Terminal:
    """A shell that finds the command, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "bin").mkdir()
        program = directory / "bin" / "barnabas"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m barnabas "$@"\n')
        program.chmod(0o755)
        self.settings = {
            **{name: value for name, value in os.environ.items() if "BARNABAS" not in name},
            "PATH": f"{directory}/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command], cwd=self.directory, env=self.settings,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
            check=False,
        )  # fmt: skip

    def serve(self, command: str) -> tuple[subprocess.Popen[str], str]:
        """A command that does not end, and its ready line."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self.directory, env=self.settings,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            if READY[name_of(command)] in line:
                return process, line
        said = process.communicate()[1]
        raise AssertionError(f"{command}: {said}")


def end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """The broker of README's first screen, which has the topics and the group of the pages."""
    terminal = Terminal(tmp_path_factory.mktemp("pages"))
    assert "    barnabas up --data ./log " in README
    process, ready = terminal.serve("barnabas up --data ./log --listen 127.0.0.1:0")
    try:
        servers = ready.split()[3]
        terminal.settings["BARNABAS_BOOTSTRAP_SERVERS"] = servers
        with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("orders.dlq")
        (fields,) = re.findall(r"```yaml\n(.*?)```", TESTING, re.S)
        (terminal.directory / "payments.yml").write_text(fields)
        yield terminal
    finally:
        end(process)


def test_the_commands_of_the_pages_run_one_after_the_other(terminal: Terminal) -> None:
    assert len(ONE_BY_ONE) > 25, ONE_BY_ONE
    for command in ONE_BY_ONE:
        if "group" in command:
            _consume(terminal.settings["BARNABAS_BOOTSTRAP_SERVERS"])
        done = terminal.run(command)
        allowed = (0, 6) if any(each in command for each in CHECKS) else (0,)
        assert done.returncode in allowed, (command, done.stdout, done.stderr)
        noise = re.findall(r"Traceback|Unknown child process|Warning", done.stderr)
        assert not noise, (command, done.stderr)


def _consume(servers: str) -> None:
    """Group `billing` has read something."""
    with barnabas.sync.Consumer(
        "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        consumer.commit(consumer.getone(timeout=TIMEOUT_S))


@pytest.mark.parametrize("command", SERVING)
def test_commands_that_do_not_end_say_that_they_are_ready(
    terminal: Terminal, command: str, tmp_path: Path
) -> None:
    command = command.replace("127.0.0.1:9464", "127.0.0.1:0")
    command = re.sub(r"--data \S+", f"--data {tmp_path}/log", command)
    if name_of(command) == "up" and "--data" not in command and "--ephemeral" not in command:
        command += f" --data {tmp_path}/log"
    if "--listen" not in command:
        command += " --listen 127.0.0.1:0"
    process, _ = terminal.serve(command)
    end(process)


def test_the_completion_of_the_page_works_in_bash(terminal: Terminal) -> None:
    (line,) = re.findall(r"^    (eval .*)$", OPERATIONS, re.M)
    words = "COMP_WORDS=(barnabas topic cr); COMP_CWORD=2"
    done = terminal.run(f'{line}; {words}; _barnabas_completion barnabas; echo "$COMPREPLY"')
    assert (done.stdout, done.stderr) == ("create\n", "")


def test_the_test_of_the_first_screen_passes(tmp_path: Path) -> None:
    (line,) = re.findall(r"^    (def test_app.*)$", README, re.M)
    (tmp_path / "test_it.py").write_text(
        "from confluent_kafka.admin import AdminClient\n"
        "def run_app(servers):\n"
        "    assert AdminClient({'bootstrap.servers': servers}).list_topics(timeout=60)\n"
        f"{line}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "barnabas.testing.plugin"],
        cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout
