"""`barnabas acl` on a broker with access rules."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Ended, barnabas
from tests.process import BrokerProcess
from tests.waiting import until

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    log = tmp_path_factory.mktemp("acl") / "broker.log"
    process = BrokerProcess(None, OPTIONS, log=log).start()
    yield process
    process.stop()


@pytest.fixture
def acl(broker: BrokerProcess) -> Iterator["Acl"]:
    command = Acl(broker.bootstrap_servers)
    yield command
    command("apply", "-", "--prune", "-y")


class Acl:
    """`barnabas acl`, with this broker."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> Ended:
        ended = barnabas("acl", *arguments, stdin=stdin, servers=self._servers)
        assert ended.code == code, ended
        return ended


def test_rules_are_added_listed_explained_and_revoked(acl: Acl) -> None:
    acl("allow", "alice", "read,describe-configs", "topic:orders-*", "--host", "10.0.0.1")
    acl("deny", "User:bob", "all", "cluster")
    acl("grant", "carol", "consumer", "topic:orders", "--group", "app-*")
    listed = acl("ls", "-J").out.splitlines()
    assert len(listed) == 6
    first = json.loads(acl("ls", "topic:orders-*", "-J").out.splitlines()[0])
    assert (first["user"], first["operation"], first["host"]) == ("alice", "read", "10.0.0.1")
    assert len(acl("ls", "topic:orders-eu", "--matching", "-J").out.splitlines()) == 2
    denied = acl("explain", "alice", "read", "topic:orders-eu", "--host", "10.0.0.2", code=1).out
    assert "DENIED: User:alice Read on Topic orders-eu from host 10.0.0.2" in denied
    assert "nearly (host): Allow User:alice Read on Topic orders- (prefix)" in denied
    assert "barnabas acl allow alice read topic:orders-eu --host 10.0.0.2" in denied
    allowed = acl(
        "explain", "--principal", "User:carol", "--operation", "Read", "--topic", "orders"
    )
    assert "ALLOWED" in allowed.out
    assert "super.users" in acl("explain", "root", "alter", "cluster").out
    acl("revoke", "carol", "read", "topic:orders")
    acl("explain", "carol", "read", "topic:orders", code=1)
    assert "there is no such rule" in acl("revoke", "carol", "read", "topic:x", code=3).err


def test_rules_go_into_a_file_and_back(acl: Acl, tmp_path: Path) -> None:
    acl("allow", "alice", "read", "group:odd*", "--literal")
    acl("allow", "*", "describe", "topic:*")
    acl("deny", "CN=a b,O=c", "write", "topic:x-*", "--host", "::1")
    exported = acl("export").out
    file = tmp_path / "rules"
    file.write_text("# what everybody may\n" + exported)
    acl("apply", "-", "--prune", "-y")
    assert acl("export").out == ""
    assert acl("apply", str(file), "--dry-run").out.count("\n+ ") + 1 == 3
    assert acl("export").out == ""
    acl("apply", str(file))
    assert acl("export").out == exported
    assert acl("apply", str(file)).out == ""
    bad = acl("apply", "-", stdin="allow alice reed topic:x\n", code=1)
    assert "-:1: 'reed' is unknown; expected one of" in bad.err.replace("<stdin>", "-")


def test_a_matrix_of_decisions_is_checked(acl: Acl) -> None:
    acl("allow", "alice", "write", "topic:orders")
    matrix = "allow alice write topic:orders\ndeny bob write topic:orders # others\n"
    acl("check", "-", stdin=matrix)
    wrong = acl("check", "-", "-J", stdin=matrix + "allow alice read topic:orders\n", code=1)
    assert json.loads(wrong.out)["found"] == "deny"
    assert "2 of 3 as expected" in wrong.err


def test_usage_errors_say_what_was_expected(acl: Acl) -> None:
    assert "expected topic:NAME" in acl("allow", "a", "read", "orders", code=2).err
    assert "expected one of Any, All, Read" in acl("allow", "a", "reed", "topic:x", code=2).err
    assert "add --group" in acl("grant", "a", "consumer", "topic:x", code=2).err


def test_a_denied_request_is_explained_afterwards(tmp_path: Path) -> None:
    options = {**OPTIONS, "super.users": "User:root"}
    process = BrokerProcess(None, options, log=tmp_path / "broker.log").start()
    try:
        servers = process.bootstrap_servers
        assert barnabas("topic", "describe", "secret", servers=servers).code == 5
        (denied, *_) = barnabas("acl", "explain", "--last", "-J", servers=servers).out.splitlines()
        found = json.loads(denied)
        assert (found["user"], found["api"]) == ("ANONYMOUS", "Metadata")
        assert (found["operation"], found["resource"]) == ("describe", "topic:secret")
        assert barnabas("acl", "ls", servers=servers).code == 5
        until(lambda: "access denied" in process.log, lambda: process.log)
    finally:
        process.stop()


def test_a_broker_without_an_authorizer_says_so(tmp_path: Path) -> None:
    process = BrokerProcess(None, {}, log=tmp_path / "broker.log").start()
    try:
        ended = barnabas("acl", "ls", servers=process.bootstrap_servers)
        assert ended.code == 1
        assert "no authorizer" in ended.err
    finally:
        process.stop()
