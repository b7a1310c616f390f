"""How a broker starts, and what a start that fails leaves behind."""

import os
import signal
import socket
from pathlib import Path

import pytest

from barnabas.broker import main
from barnabas.broker.broker import new_id
from barnabas.keeper import paths
from barnabas.keeper.keeper import ensure, parent
from barnabas.keeper.memory import MemoryKeeper
from barnabas.log.directory.checkpoints import CLEAN_SHUTDOWN
from barnabas.model.errors import Code, Failed
from barnabas.system.disk import LOCK_FILE, DirectoryLock
from tests.broker.running import running_broker


def test_a_data_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = DirectoryLock(str(tmp_path))
    with pytest.raises(Failed, match=r"in use by another broker \(process \d+\)") as refused:
        DirectoryLock(str(tmp_path))
    assert refused.value.code == Code.KAFKA_STORAGE_ERROR
    assert str(tmp_path) in refused.value.detail
    first.release()
    DirectoryLock(str(tmp_path)).release()


def test_a_second_broker_on_a_directory_says_so_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = DirectoryLock(str(tmp_path))
    try:
        assert main.run({}, [str(tmp_path)], _never_ready) == 1
    finally:
        lock.release()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line
    assert "stop that broker" in line


async def test_a_first_start_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    ensure(keeper, parent(paths.CLUSTER_ID))
    id_ = new_id()
    keeper.create(paths.CLUSTER_ID, paths.cluster_id_data(id_))
    async with running_broker(tmp_path, keeper=keeper) as running:
        assert running.broker.cluster_id == id_
        await running.create("t")
        assert running.broker.topics.get("t") is not None


@pytest.mark.parametrize("option", ["listeners", "metrics.listen"])
def test_a_start_that_finds_its_port_in_use_leaves_the_logs_closed_cleanly(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0"}
        settings[option] = f"PLAINTEXT://{address}" if option == "listeners" else address
        assert main.run(settings, [str(tmp_path)], _never_ready) == 1
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert "in use" in capsys.readouterr().err


def test_a_broker_on_every_interface_gives_clients_the_name_of_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def ready(host: str, port: int) -> None:
        told.append(f"{host}:{port}")
        os.kill(os.getpid(), signal.SIGTERM)

    assert main.run({"listeners": "PLAINTEXT://0.0.0.0:0"}, [str(tmp_path)], ready) == 0
    (address,) = told
    assert address.startswith(f"{main.host_name()}:")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if address in line]
    assert "advertised.listeners" in line


def test_a_machine_whose_name_leads_nowhere_is_called_localhost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    assert main.host_name() == "localhost"


def _never_ready(host: str, port: int) -> None:
    raise AssertionError(f"ready on {host}:{port}")
