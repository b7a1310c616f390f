"""Brokers authenticate at ZooKeeper, and keep their nodes from others."""

from pathlib import Path

import pytest

from barnabas.broker.keepers import open_zookeeper, read_digest
from barnabas.cli.security import stored_users
from barnabas.keeper.paths import USERS, entity_config
from barnabas.model.errors import KafkaError
from tests.support.zookeeper import Zookeeper


def test_nodes_of_a_user_are_for_this_user_only(shared_server: Zookeeper, tmp_path: Path) -> None:
    address = f"{shared_server.address}/digest"
    own, other = tmp_path / "own", tmp_path / "other"
    own.write_text("broker:canary\n")
    other.write_text("mallory:canary")
    with stored_users.opened(None, address, str(own)) as keeper:
        stored_users.set_password(keeper, "alice", "x", ["SCRAM-SHA-256"], 4096)
        assert stored_users.users(keeper) == {"alice": {"SCRAM-SHA-256": 4096}}
    path = "/digest" + entity_config(USERS, "alice")
    for file in (None, str(other)):
        with pytest.raises(KafkaError, match="belongs to another user") as problem:
            open_zookeeper(address, file)
        assert "canary" not in str(problem.value)
        keeper = open_zookeeper(shared_server.address, file)
        try:
            for attempt in (keeper.get, keeper.delete):
                with pytest.raises(KafkaError, match="belongs to another user"):
                    attempt(path)
        finally:
            keeper.close()
    with stored_users.opened(None, address, str(own)) as keeper:
        assert list(stored_users.users(keeper)) == ["alice"]


@pytest.mark.parametrize("text", ["", "canary", ":canary", "canary:", "canary:" + "x" * 2_000])
def test_a_file_without_user_and_password_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "digest"
    file.write_text(text)
    with pytest.raises(KafkaError, match="expected USER:PASSWORD") as problem:
        read_digest(str(file))
    assert "canary" not in str(problem.value)
    with pytest.raises(KafkaError, match="cannot be read"):
        read_digest(str(tmp_path / "nowhere"))
