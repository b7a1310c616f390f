"""`barnabas up` and `barnabas demo`."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import barnabas
from tests.process import READY, BrokerProcess
from tests.waiting import WAIT_S, until

pytestmark = pytest.mark.slow


def test_a_demo_without_java_says_so_and_ends_with_counts_that_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With Java and Spark: tests/spark/test_demo.py."""
    monkeypatch.setenv("JAVA_HOME", "/there/is/none")
    ended = barnabas("demo", "-n", "2000")
    assert ended.code == 0, ended
    assert len(ended.err.splitlines()) == 1
    assert ended.err.startswith("without pipelines: ")
    assert "produced  2000 records" in ended.out
    assert "consumed  2000 records" in ended.out
    assert "barnabas consume orders" in ended.out


@pytest.mark.parametrize("end", ["SIGTERM", "SIGHUP", "SIGKILL", "terminal"])
def test_a_demo_leaves_no_broker_behind_however_it_ends(end: str, tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": "/there/is/none", "TMPDIR": str(tmp_path)}
    pid, terminal = pty.fork()  # "terminal": it is closed, as that of a connection that broke
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "barnabas", "demo", "--keep"], environment)
    said = b""
    while b"Ctrl-C ends it" not in said:
        said += os.read(terminal, 65536)
    started = children(pid)  # the broker and the console
    assert len(started) == 2
    if end == "terminal":
        os.close(terminal)
    else:
        os.kill(pid, getattr(signal, end))
    assert os.waitpid(pid, 0)[1] != 0
    until(lambda: not any(os.path.exists(f"/proc/{each}") for each in started))
    if end != "SIGKILL":
        assert not any(tmp_path.iterdir())
    if end != "terminal":
        os.close(terminal)


def children(pid: int) -> list[int]:
    """Of the main thread of a process."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_an_ephemeral_broker_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = BrokerProcess(None, log=tmp_path / "log").start()
    until(lambda: _data_directory(broker.pid))
    directory = str(_data_directory(broker.pid))
    assert os.path.isdir(directory)
    assert broker.stop() == 0
    assert not os.path.exists(directory)


def test_a_broker_keeps_its_topics_over_a_restart(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", log=tmp_path / "log").start()
    try:
        servers = broker.bootstrap_servers
        assert barnabas("produce", "kept", stdin="one\n", servers=servers).code == 0
        broker.restart()
        assert barnabas("consume", "kept", "-e", servers=servers).out == "one\n"
    finally:
        assert broker.stop() == 0


def test_a_port_in_use_is_said_in_a_line(tmp_path: Path) -> None:
    broker = BrokerProcess(None, log=tmp_path / "log").start()
    try:
        ended = barnabas("up", "--ephemeral", "--listen", broker.bootstrap_servers)
        assert ended.code == 1
        assert "in use" in ended.err
    finally:
        broker.stop()


def test_a_file_of_kafkas_options_works_and_says_what_it_ignores(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=5\nnum.io.threads=8\nnum.partitions=4\n"
        f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path / 'data'}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "up", "-F", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    ready = READY.search(process.stdout.readline())
    assert ready is not None
    servers = f"{ready[1]}:{ready[2]}"
    created = barnabas("topic", "create", "t", servers=servers)
    rows = barnabas("topic", "describe", "t", "-J", servers=servers).out.splitlines()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=WAIT_S)
    assert created.code == 0
    assert len(rows) == 4
    assert all('"leader": 5' in row for row in rows)
    assert "num.io.threads has no effect" in err
    assert (tmp_path / "data" / "t-3").is_dir()
    assert process.returncode == 0


def test_a_broken_keeper_file_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "keeper.db").write_bytes(b"not a database" * 1000)
    ended = barnabas("up", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert ended.code == 1
    assert str(tmp_path / "keeper.db") in ended.err
    assert ended.err.count("\n") == 1


def _data_directory(pid: int) -> str | None:
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed since it was listed
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if found := re.match(r"(/\S*/barnabas-[^/]+)/", target):
                return found[1]
    return None


def test_a_port_in_use_and_a_bad_directory_are_one_line_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        for given, said in (
            (("--listen", at, "--data", str(tmp_path / "data")),
             f"cannot listen on {at}: Address already in use: another program uses this port: stop"
             " that program, or listen on another port (0 picks a free one)"),
            (("--listen", "127.0.0.1:0", "--metrics", at, "--data", str(tmp_path / "data")),
             f"cannot listen on {at}: Address already in use: another program uses this port: stop"
             " that program, or listen on another port (0 picks a free one)"),
            (("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file")),
             f"data directory {tmp_path}/file: File exists: it is a file, or below one: name"
             " another directory (--data, or log.dirs)"),
            (("--listen", "127.0.0.1:0", "--data", "/proc/nope"),
             "data directory /proc/nope: No such file or directory: name another directory (--data,"
             " or log.dirs)"),
        ):  # fmt: skip
            ended = barnabas("up", *given)
            assert ended.code == 1
            (line,) = ended.err.splitlines()
            assert json.loads(line)["reason"] == said
        ended = barnabas("console", "--listen", at)
    assert ended.code == 1
    assert ended.err.startswith(f"barnabas: cannot listen on {at}: Address already in use: another")
