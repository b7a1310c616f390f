"""Logins and access rules together: who logged in is whom the rules are about."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import barnabas.sync
from barnabas.client.admin.security import Acl
from barnabas.model.errors import Code, KafkaError
from tests.compat.sasl_brokers import PASSWORD, USER, SaslProcess, client_jaas, sasl_brokers
from tests.support.java import Java
from tests.waiting import WAIT_S, until

OPTIONS = {
    "delegation.token.secret.key": "canary-tokens",
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
        "default.api.timeout.ms": str(int(WAIT_S * 1000)),
    }


def refused_by_rules(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except KafkaError as problem:
        if problem.code != Code.TOPIC_AUTHORIZATION_FAILED:
            raise
        return True
    return False


def test_a_user_may_do_what_the_rules_allow(broker: SaslProcess) -> None:
    with barnabas.sync.Admin(settings(broker, USER, PASSWORD)) as admin:
        admin.create_topic("open", partitions=3)
        admin.create_topic("closed", partitions=3)
        admin.set_password("carol", "secret")
        admin.create_acls(
            [Acl("topic", "open", "User:carol", each) for each in ("write", "read", "describe")]
        )
        with barnabas.sync.Producer(settings(broker, "carol", "secret")) as producer:
            # A rule holds within a second on the brokers that did not take the request.
            until(lambda: not refused_by_rules(lambda: producer.send("open", b"value")))
            with pytest.raises(KafkaError) as refused:
                producer.send("closed", b"value")
            assert refused.value.code == Code.TOPIC_AUTHORIZATION_FAILED
        with barnabas.sync.Admin(settings(broker, "carol", "secret")) as carol:
            until(lambda: set(carol.topics().topics) == {"open"})
            with pytest.raises(KafkaError) as refused:
                carol.set_password("carol", "another")
            assert refused.value.code == Code.CLUSTER_AUTHORIZATION_FAILED
            with pytest.raises(KafkaError) as refused:
                carol.users()
            assert refused.value.code == Code.CLUSTER_AUTHORIZATION_FAILED
        assert {each.name for each in admin.users()} >= {"carol", USER}


def test_a_delegation_token_of_kafkas_tool_logs_in_on_every_broker(
    broker: SaslProcess, java_tools: Java, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    jaas = client_jaas("SCRAM-SHA-512").replace("\\", "\\\\")
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}\n"
    )

    def tool(*arguments: str) -> str:
        done = java_tools.run(
            "org.apache.kafka.tools.DelegationTokenCommand",
            *("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(file)),
            *arguments,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    told = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:carol")
    (row,) = (line for line in told.splitlines() if f"User:{USER}" in line)
    id_, hmac = row.split()[:2]
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    for server in broker.bootstrap_servers.split(","):
        given = {
            "bootstrap.servers": server,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{module} required username="{id_}" password="{hmac}"'
            ' tokenauth="true";',
        }
        with barnabas.sync.Admin(given) as admin:
            admin.topics()
    assert id_ in tool("--describe", "--owner-principal", f"User:{USER}")
    tool("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    tool("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    with barnabas.sync.Admin(given) as admin, pytest.raises(KafkaError, match="login"):
        admin.topics()
    assert hmac not in broker.log
