"""`barnabas up --zookeeper`: brokers that join a real ensemble, one command each."""

import json
from pathlib import Path

import pytest

from tests.cli.command import barnabas
from tests.process import BrokerProcess
from tests.support.zookeeper import Zookeeper


class Joining(BrokerProcess):
    """One of them."""

    def __init__(self, home: Path, zookeeper: str, *more: str) -> None:
        super().__init__(home / "data", log=home / "log")
        self._more = ("--zookeeper", zookeeper, *more)

    def command(self) -> list[str]:
        return [*super().command(), *self._more]


def _joined(home: Path, name: str, zookeeper: str, *more: str) -> Joining:
    (home / name).mkdir()
    broker = Joining(home / name, zookeeper, *more)
    broker.start()
    return broker


def test_brokers_join_with_their_ids_and_racks_and_keep_records(
    zookeeper: Zookeeper, tmp_path: Path
) -> None:
    address = f"{zookeeper.address}/joined"
    brokers = []
    try:
        brokers.append(_joined(tmp_path, "one", address, "--id", "7", "--rack", "a"))
        brokers.append(_joined(tmp_path, "two", address, "--rack", "b"))
        servers = ",".join(broker.bootstrap_servers for broker in brokers)
        status = json.loads(barnabas("status", "-J", servers=servers).out)
        seven, other = status["brokers"]
        assert (seven["broker"], seven["rack"]) == (7, "a")
        assert (other["broker"] > 1000, other["rack"]) == (True, "b")
        assert barnabas("topic", "create", "t", "-r", "2", servers=servers).code == 0
        made = barnabas("produce", "t", "-X", "acks=all", stdin="kept\n", servers=servers)
        assert made.code == 0
        brokers[1].restart()
        assert barnabas("consume", "t", "-e", servers=servers).out == "kept\n"
        again = json.loads(barnabas("status", "-J", servers=servers).out)["brokers"]
        assert [broker["broker"] for broker in again] == [7, other["broker"]]
    finally:
        for broker in brokers:
            assert broker.stop() == 0
    for broker in brokers:
        broker.check_log()


def test_an_id_that_lives_is_refused(zookeeper: Zookeeper, tmp_path: Path) -> None:
    address = f"{zookeeper.address}/twice"
    quick = ("--id", "1", "-X", "zookeeper.session.timeout.ms=15000")
    first = _joined(tmp_path, "one", address, *quick)
    try:
        second = barnabas(
            *("up", "--zookeeper", address, *quick, "--data", str(tmp_path / "two")),
            *("--listen", "127.0.0.1:0"),
        )
        assert second.code == 1
        assert "1" in second.err
    finally:
        assert first.stop() == 0


def test_an_ensemble_that_is_not_there_is_said_in_a_line(tmp_path: Path) -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed: pip install -e '.[zookeeper]'")
    ended = barnabas(
        *("up", "--zookeeper", "127.0.0.1:1", "--data", str(tmp_path)),
        *("--listen", "127.0.0.1:0"),
    )
    assert ended.code == 1
    assert "127.0.0.1:1" in ended.err
    assert ended.err.count("\n") == 1
