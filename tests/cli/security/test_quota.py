"""`barnabas quota` on a broker."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Ended, barnabas
from tests.process import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    log = tmp_path_factory.mktemp("quota") / "broker.log"
    process = BrokerProcess(None, log=log).start()
    yield process
    process.stop()


class QuotaCommand:
    """`barnabas quota`, with this broker."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def __call__(self, *arguments: str, code: int = 0) -> Ended:
        ended = barnabas("quota", *arguments, servers=self._servers)
        assert ended.code == code, ended
        return ended

    def listed(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("describe", "-J", *arguments).out.splitlines()]


@pytest.fixture
def quota(broker: BrokerProcess) -> QuotaCommand:
    return QuotaCommand(broker.bootstrap_servers)


def test_limits_are_set_described_and_deleted(quota: QuotaCommand) -> None:
    quota("set", "--user", "alice", "producer_byte_rate=10MB", "request_percentage=12.5%")
    quota("set", "--user", "alice", "--client-id-default", "consumer_byte_rate=512KiB/s")
    quota("set", "--user-default", "controller_mutation_rate=0.5")
    quota("set", "--ip", "10.0.0.1", "connection_creation_rate=20")
    found = {
        (row["user"], row["client_id"], row["ip"], row["quota"]): row["limit"]
        for row in quota.listed()
    }
    assert found == {
        ("alice", "", "", "producer_byte_rate"): 10_000_000,
        ("alice", "", "", "request_percentage"): 12.5,
        ("alice", "(default)", "", "consumer_byte_rate"): 512 * 1024,
        ("(default)", "", "", "controller_mutation_rate"): 0.5,
        ("", "", "10.0.0.1", "connection_creation_rate"): 20,
    }
    assert len(quota.listed("--user", "alice")) == 3
    assert len(quota.listed("--user", "alice", "--client-id-default")) == 1
    held = {row["quota"]: row for row in quota.listed("--in-force", "--user", "alice")}
    assert held["producer_byte_rate"]["of"] == "user alice"
    assert held["controller_mutation_rate"]["of"] == "user (default)"
    assert held["controller_mutation_rate"]["shared_by"] == "user alice"
    quota("delete", "--user", "alice", "producer_byte_rate")
    assert [row["quota"] for row in quota.listed("--user", "alice")].count(
        "producer_byte_rate"
    ) == 0
    for entity in (
        ("--user", "alice"),
        ("--user", "alice", "--client-id-default"),
        ("--user-default",),
        ("--ip", "10.0.0.1"),
    ):
        quota("delete", *entity)
    assert quota.listed() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("set", "producer_byte_rate=1"), "say whose quota"),
        (("set", "--user", "a", "producer_byte_rate"), "expected QUOTA=LIMIT"),
        (("set", "--user", "a", "producer_byte_rate=fast"), "expected a number"),
        (("set", "--user", "a", "producer_byte_rate=5%"), "only request_percentage"),
        (("set", "--user", "a", "producer_byte_rate=0"), "must be greater than 0"),
        (("set", "--user", "a", "rate=1"), "can have: producer_byte_rate"),
        (("set", "--ip", "10.0.0.1", "producer_byte_rate=1"), "can have: connection_creation_rate"),
        (("set", "--ip", "host.example", "connection_creation_rate=1"), "not a valid IP address"),
        (("set", "--user", "a", "--user-default", "producer_byte_rate=1"), "only once"),
        (("set", "--user", "a", "--ip", "10.0.0.1", "producer_byte_rate=1"), "not be combined"),
    ],
)
def test_a_mistake_is_named_with_what_is_expected(
    quota: QuotaCommand, arguments: tuple[str, ...], text: str
) -> None:
    assert text in quota(*arguments, code=2).err.replace("\n", " ")


def test_a_limit_that_does_not_exist_cannot_be_deleted(quota: QuotaCommand) -> None:
    assert "user nobody has no quota" in quota("delete", "--user", "nobody", code=3).err
    quota("set", "--user", "bob", "producer_byte_rate=1k")
    missing = quota("delete", "--user", "bob", "request_percentage", code=3)
    assert "it has producer_byte_rate" in missing.err
    quota("delete", "--user", "bob")


def test_the_status_names_clients_over_their_quota(
    broker: BrokerProcess, quota: QuotaCommand
) -> None:
    servers = broker.bootstrap_servers
    quota("set", "--client-id-default", "producer_byte_rate=10")
    barnabas("topic", "create", "t", servers=servers)
    produced = barnabas("produce", "t", stdin="x" * 500 + "\n", servers=servers)
    assert produced.code == 0, produced
    status = barnabas("status", servers=servers).out
    assert "is over producer_byte_rate=10 of client-id (default)" in status
    document = json.loads(barnabas("status", "--output", "json", servers=servers).out)
    assert document["throttled"][0]["times"] >= 1
    quota("delete", "--client-id-default")


def test_the_commands_of_the_page_work(quota: QuotaCommand) -> None:
    page = (Path(__file__).parents[3] / "docs" / "SECURITY.md").read_text()
    section = page.partition("\n## Quotas\n")[2]
    block = section.split("```")[1]
    commands = [line for line in block.splitlines() if line]
    assert len(commands) == 8
    for line in commands:
        program, name, *arguments = shlex.split(line)
        assert (program, name) == ("barnabas", "quota")
        quota(*arguments)
    assert {row["user"] for row in quota.listed()} == {"alice", "(default)"}
    for entity in (
        ("--user", "alice"),
        ("--user", "alice", "--client-id", "reports"),
        ("--user-default",),
    ):
        quota("delete", *entity)
