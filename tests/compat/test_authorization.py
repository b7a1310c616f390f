"""Access rules on one broker and on three, as librdkafka and our own client meet them."""

import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import barnabas.sync
from barnabas.client.admin.security import Acl, AclFilter
from tests.compat.sasl_brokers import ODD_USER, PASSWORD, USER, SaslProcess, sasl_brokers
from tests.waiting import WAIT_S, until

ck: Any = import_module("confluent_kafka")

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER}",
}
TENANT = f"User:{ODD_USER}"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def broker(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProcess]:
    directory: Path = tmp_path_factory.mktemp("rules")
    with sasl_brokers(directory, request.param, OPTIONS) as process:
        yield process


@pytest.fixture
def admin(broker: SaslProcess) -> Iterator[barnabas.sync.Admin]:
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    with barnabas.sync.Admin(options) as admin:
        yield admin
        admin.delete_acls(AclFilter())


def librdkafka(broker: SaslProcess, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": ODD_USER,
        "sasl.password": PASSWORD,
        **more,
    }


def produced(broker: SaslProcess, topic: str) -> str:
    """The name of the error, or nothing."""
    outcome: list[str] = []
    producer = ck.Producer(librdkafka(broker, **{"message.timeout.ms": int(WAIT_S * 1000)}))
    producer.produce(
        topic, b"v", on_delivery=lambda error, _: outcome.append(error.name() if error else "")
    )
    producer.flush(WAIT_S)
    return outcome[0]


def test_a_tenant_may_what_rules_allow_and_no_more(
    broker: SaslProcess, admin: barnabas.sync.Admin
) -> None:
    admin.create_topic("orders", partitions=3)
    admin.create_topic("secret", partitions=3)
    assert produced(broker, "orders") == "TOPIC_AUTHORIZATION_FAILED"
    rules = [
        Acl("topic", "ord", TENANT, "write", pattern="prefixed"),
        Acl("topic", "orders", TENANT, "read"),
        Acl("group", "g", TENANT, "read"),
    ]
    admin.create_acls(rules)
    until(lambda: produced(broker, "orders") == "")
    assert produced(broker, "secret") == "TOPIC_AUTHORIZATION_FAILED"
    config = librdkafka(broker, **{"group.id": "g", "auto.offset.reset": "earliest"})
    consumer = ck.Consumer(config)
    consumer.subscribe(["orders"])
    message = consumer.poll(WAIT_S)
    while message is None or message.error():
        message = consumer.poll(WAIT_S)
    assert message.value() == b"v"
    listed = ck.admin.AdminClient(librdkafka(broker)).list_topics(timeout=WAIT_S)
    assert set(listed.topics) == {"orders"}
    # A right that is taken away ends for a consumer that is reading.
    admin.delete_acls(AclFilter("topic", "orders", TENANT, "read"))
    deadline = time.monotonic() + WAIT_S
    while (message := consumer.poll(1)) is None or not message.error():
        assert time.monotonic() < deadline
    assert message.error().name() == "TOPIC_AUTHORIZATION_FAILED"
    consumer.close()
