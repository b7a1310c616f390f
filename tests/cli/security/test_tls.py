"""`barnabas tls dev`: the files it makes, and that it replaces none."""

import stat
from pathlib import Path

import pytest

from barnabas.cli.app import run
from barnabas.system.tls.stores import read_key_store, read_trust_store


def test_it_makes_an_authority_a_server_and_a_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "certs"
    assert run(["tls", "dev", str(directory)]) == 0
    made = {path.name: path for path in directory.iterdir()}
    assert set(made) == {
        *("ca.pem", "ca-key.pem", "server.pem", "server.p12", "client.pem", "client.p12")
    }
    for name, path in made.items():
        assert stat.S_IMODE(path.stat().st_mode) == (0o644 if name == "ca.pem" else 0o600)
    assert read_trust_store(str(made["ca.pem"]), None, None)
    for name in ("server", "client"):
        assert read_key_store(str(made[f"{name}.pem"]), None, None, None, None)
    out = capsys.readouterr().out
    assert f"ssl.keystore.location={directory}/server.pem" in out
    assert "security.protocol=SSL" in out


def test_users_can_be_added_and_nothing_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tls", "dev", str(tmp_path), "--user", "alice", "--host", "kafka.example"]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(["tls", "dev", str(tmp_path), "--user", "alice", "--user", "bob"]) == 0
    assert "alice has a certificate already" in capsys.readouterr().err
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"bob.pem", "bob.p12"}
