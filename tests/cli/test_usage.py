"""Help, typos and exit codes: what needs no broker."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import barnabas
from tests.ports import free_ports_from

pytestmark = pytest.mark.slow


def test_help_names_every_command() -> None:
    ended = barnabas("--help")
    assert ended.code == 0
    for name in ["up", "demo", "topic", "produce", "consume"]:
        assert f"\n  {name} " in ended.out


HEAVY = ("asyncio", "cramjam", "msgspec", "prometheus_client", "rich", "sqlite3", "ssl", "uvloop")


@pytest.mark.parametrize("arguments", [[], ["topic"], ["consume"], ["produce"], ["up"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    """How long it takes is for `make bench` to say."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "barnabas", *arguments, "--help"],
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "click" in loaded
    assert not loaded.intersection(HEAVY)


def test_the_version_is_the_packages() -> None:
    assert barnabas("--version").out == "barnabas 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topc"], "no command 'topc'; did you mean topic?"),
        (["topic", "desribe", "x"], "did you mean describe?"),
        (["consume", "x", "--cuont", "1"], "--count"),
        (["consume"], "missing argument 'TOPIC'"),
        (["consume", "x", "-o", "start"], "expected beginning, end, OFFSET"),
        (["consume", "x", "-f", "%q"], "%q is not a format letter"),
        (["consume", "x", "-f", "%s", "-J"], "exclude each other"),
        (["topic", "create", "../x"], "only ASCII letters"),
        (["topic", "ls", "-X", "requst.timeout.ms=1"], "did you mean request.timeout.ms?"),
        (["topic", "ls", "-X", "acks"], "expected NAME=VALUE"),
        (["topic", "trim", "x", "-o", "e@1"], "use s@TIME"),
        (["topic", "trim", "x", "-o", "1"], "is not a terminal: use -y"),
        (["topic", "delete", "x"], "is not a terminal: use -y"),
        (["cluster", "elect", "x", "--unclean"], "is not a terminal: use -y"),
        (["produce", "x", "-D", ""], "at least one character"),
        (["produce", "x", "-J", "-k", "1"], "leave out -k and -K"),
        (["up", "-X", "num.partitons=3"], "did you mean num.partitions?"),
        (["up", "-X", "ssl.engine.factory.class=x"], "OpenSSL does TLS, not Java"),
        (["up", "--listen", "0.0.0.0:9092"], "--insecure"),
        (["up", "-X", "listeners=OUTSIDE://127.0.0.1:1"], "listener.security.protocol.map"),
        (["tls", "dev", "x", "--user", "../y"], "expected up to 63 letters"),
        (["up", "--data", "x", "--ephemeral"], "exclude each other"),
        (["up", "--listen", "localhost"], "expected HOST:PORT"),
        (["up", "--data", "x,y"], "repeat --data for each disk"),
        (["up", "-X", "log.flush.interval.messages=0"], "1 or more"),
        (["topic", "ls", "-b", "localhost:x"], "bootstrap server 'localhost:x'"),
        (["topic", "ls", "-b", ","], "bootstrap"),
        (["consume", "x", "-o", "9" * 30], "expected at most 9223372036854775807"),
        (["consume", "x", "-o", "s@" + "9" * 30], "expected at most 9223372036854775807"),
        (["produce", "x", "-H", "\udcff=1"], "the name is not UTF-8"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy(arguments: list[str], said: str) -> None:
    ended = barnabas(*arguments)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert ended.out == ""


def test_nobody_there_is_a_failure_in_one_line() -> None:
    port = free_ports_from(1)
    ended = barnabas("topic", "ls", servers=f"127.0.0.1:{port}")
    said = f"no broker at 127.0.0.1:{port}: Connection refused. Start one, or set bootstrap.servers"
    assert ended == (1, "", f"barnabas: {said}\n")


def test_no_answer_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        ended = barnabas(
            "-X", "socket.connection.setup.timeout.ms=100", "topic", "ls", "-b", address
        )
    assert ended.code == 4
    said = f"no broker at {address}: no answer in time. Start one, or set bootstrap.servers"
    assert ended.err == f"barnabas: {said}\n"


def test_options_can_be_listed() -> None:
    assert "acks=all\n" in barnabas("-X", "list").out
    assert "num.partitions=1\n" in barnabas("up", "-X", "list").out


def test_options_come_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\nrequest.timeout.ms=1000\n")
    assert "127.0.0.1:1:" in barnabas("topic", "ls", "-F", str(file)).err
    given = barnabas("topic", "ls", "-F", str(file), "-b", "127.0.0.1:2")
    assert "127.0.0.1:2:" in given.err
    assert barnabas("topic", "ls", "-F", str(tmp_path / "gone")).code == 2


@pytest.mark.parametrize("command", [["up"], ["topic", "ls"]])
@pytest.mark.parametrize(
    ("content", "said"), [(b"a=1\nb=\xff\n", "byte 6 is not UTF-8"), (b"=\n", "is not name=value")]
)
def test_a_file_of_options_that_cannot_be_read_is_one_line(
    tmp_path: Path, command: list[str], content: bytes, said: str
) -> None:
    file = tmp_path / "odd.properties"
    file.write_bytes(content)
    ended = barnabas(*command, "-F", str(file))
    assert ended.code == 2
    assert f"{file}" in ended.err
    assert said in ended.err
    assert ended.err.count("\n") == 1
