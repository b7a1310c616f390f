"""Access rules for clients that are known by their certificates, on one broker and on three."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import barnabas.sync
from barnabas.client.admin.security import Acl, AclFilter
from barnabas.model.errors import Code, KafkaError
from tests.compat.tls_brokers import TlsProcess, tls_brokers
from tests.support.certificates import Pki, new_pki
from tests.waiting import WAIT_S, until

ck: Any = import_module("confluent_kafka")

USERS = ("admin", "Alice", "bob", "eve-external")
OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # As docs/SECURITY.md has it, after a rule that keeps some users apart.
    "ssl.principal.mapping.rules": (
        "RULE:^CN=(.*)-external,.*$/external:$1/,RULE:^CN=([^,]*),.*$/$1/L,DEFAULT"
    ),
    "super.users": "User:admin;User:server",
}


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def broker(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsProcess]:
    pki = new_pki(tmp_path_factory.mktemp("pki"), *USERS)
    with tls_brokers(tmp_path_factory.mktemp("tls"), pki, request.param, OPTIONS) as process:
        yield process
        process.check_log()


def settings(broker: TlsProcess, user: str) -> dict[str, str]:
    pki: Pki = broker.pki
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": pki.path("ca.pem"),
        "ssl.certificate.location": pki.path(f"{user}.pem"),
        "ssl.key.location": pki.path(f"{user}.pem"),
    }


@pytest.fixture
def admin(broker: TlsProcess) -> Iterator[barnabas.sync.Admin]:
    with barnabas.sync.Admin(settings(broker, "admin")) as admin:
        yield admin
        admin.delete_acls(AclFilter())


def visible(broker: TlsProcess, user: str) -> set[str]:
    with barnabas.sync.Admin(settings(broker, user)) as client:
        return set(client.topics().topics)


def test_rules_name_users_as_the_mapping_rules_make_them(
    broker: TlsProcess, admin: barnabas.sync.Admin
) -> None:
    for name in ("orders", "closed"):
        admin.create_topic(name, partitions=3)
    assert visible(broker, "Alice") == visible(broker, "eve-external") == set()
    rules = [Acl("topic", "orders", "User:alice", each) for each in ("write", "read")]
    admin.create_acls([*rules, Acl("topic", "closed", "User:external:eve", "describe")])
    until(lambda: visible(broker, "Alice") == {"orders"})
    until(lambda: visible(broker, "eve-external") == {"closed"})
    assert visible(broker, "bob") == set()
    problems: list[Any] = []
    producer = ck.Producer(settings(broker, "Alice"))
    for topic in ("orders", "closed"):
        for partition in range(3):
            producer.produce(
                topic, b"v", partition=partition, on_delivery=lambda *said: problems.append(said)
            )
    assert producer.flush(WAIT_S) == 0
    refused = {message.topic() for error, message in problems if error is not None}
    assert refused == {"closed"}
    assert len(problems) == 6
    with (
        barnabas.sync.Producer(settings(broker, "bob")) as other,
        pytest.raises(KafkaError) as denied,
    ):
        other.send("orders", b"v")
    assert denied.value.code == Code.TOPIC_AUTHORIZATION_FAILED
    assert '"principal": "User:bob"' in broker.log
