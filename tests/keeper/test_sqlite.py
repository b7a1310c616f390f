"""What the file promises beyond the contract: it is there again after a stop and after a kill."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.keeper.sqlite import SqliteKeeper
from barnabas.model.errors import Code, Failed

_WRITER = """
import sys
from barnabas.keeper.sqlite import SqliteKeeper
keeper = SqliteKeeper(sys.argv[1])
keeper.create("/count")
n = 0
while True:
    n += 1
    keeper.set("/count", b"%d" % n)
    print(n, flush=True)
"""


def test_reopening_finds_what_was_there(tmp_path: Path) -> None:
    file = str(tmp_path / "keeper")
    keeper = SqliteKeeper(file)
    keeper.create("/a", b"x")
    keeper.set("/a", b"y")
    keeper.close()
    again = SqliteKeeper(file)
    assert again.get("/a")[:2] == (b"y", 1)
    again.close()


def test_a_write_that_returned_survives_a_kill(tmp_path: Path) -> None:
    file = str(tmp_path / "keeper")
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, file], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer.stdout as said:
        for _ in range(20):
            said.readline()
        writer.send_signal(signal.SIGKILL)
        rest = said.read().split()
    writer.wait()
    acknowledged = int(rest[-1]) if rest else 20
    keeper = SqliteKeeper(file)
    data, version = keeper.get("/count")[:2]
    keeper.close()
    assert int(data) == version
    assert version in (acknowledged, acknowledged + 1)


def test_two_brokers_share_a_file(tmp_path: Path) -> None:
    file = str(tmp_path / "keeper")
    one, two = SqliteKeeper(file), SqliteKeeper(file)
    one.create("/a", b"from one")
    assert two.get("/a").data == b"from one"
    assert two.set("/a", b"from two", version=0) == 1
    assert one.get("/a")[:2] == (b"from two", 1)
    one.close()
    two.close()


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    import sqlite3

    file = str(tmp_path / "keeper")
    later = sqlite3.connect(file)
    later.execute("PRAGMA user_version = 99")
    later.close()
    with pytest.raises(Failed, match="schema 99"):
        SqliteKeeper(file)


def test_a_broken_file_is_a_storage_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "keeper"
    file.write_bytes(b"not a database" * 1000)
    with pytest.raises(Failed, match=str(file)) as failed:
        SqliteKeeper(str(file))
    assert failed.value.code is Code.KAFKA_STORAGE_ERROR
    with pytest.raises(Failed, match=str(tmp_path)):
        SqliteKeeper(str(tmp_path))


def test_a_file_that_breaks_later_is_a_storage_error(tmp_path: Path) -> None:
    import sqlite3

    file = str(tmp_path / "keeper")
    keeper = SqliteKeeper(file)
    keeper.create("/a", b"x")
    with sqlite3.connect(file) as other:
        other.execute("DROP TABLE node")
    other.close()
    for use in (keeper.get, keeper.exists, keeper.children, keeper.create, keeper.delete):
        with pytest.raises(Failed, match="no such table"):
            use("/a")
    keeper.close()
