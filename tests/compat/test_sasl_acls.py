"""Logins and access rules together: who logged in is whom the rules are about."""

from collections.abc import Iterator
from typing import Any

import pytest

import barnabas.sync
from barnabas.client.admin.security import Acl
from barnabas.model.errors import Code, KafkaError
from tests.compat.sasl_brokers import PASSWORD, USER, SaslProcess, sasl_brokers

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER}",
}


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def broker(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProcess]:
    with sasl_brokers(tmp_path_factory.mktemp("acls"), request.param, OPTIONS) as process:
        yield process
        process.check_log()


def settings(broker: SaslProcess, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": user,
        "sasl.password": password,
        "default.api.timeout.ms": "20000",
    }


def test_a_user_may_do_what_the_rules_allow(broker: SaslProcess) -> None:
    with barnabas.sync.Admin(settings(broker, USER, PASSWORD)) as admin:
        admin.create_topic("open", partitions=3)
        admin.create_topic("closed", partitions=3)
        admin.set_password("carol", "secret")
        admin.create_acls(
            [Acl("topic", "open", "User:carol", each) for each in ("write", "read", "describe")]
        )
        with barnabas.sync.Producer(settings(broker, "carol", "secret")) as producer:
            producer.send("open", b"value")
            with pytest.raises(KafkaError) as refused:
                producer.send("closed", b"value")
            assert refused.value.code == Code.TOPIC_AUTHORIZATION_FAILED
        with barnabas.sync.Admin(settings(broker, "carol", "secret")) as carol:
            assert set(carol.topics().topics) == {"open"}
            with pytest.raises(KafkaError) as refused:
                carol.set_password("carol", "another")
            assert refused.value.code == Code.CLUSTER_AUTHORIZATION_FAILED
            with pytest.raises(KafkaError) as refused:
                carol.users()
            assert refused.value.code == Code.CLUSTER_AUTHORIZATION_FAILED
        assert {each.name for each in admin.users()} >= {"carol", USER}
