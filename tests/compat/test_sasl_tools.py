"""Kafka's own tools log in, and change users of SCRAM."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import barnabas.sync
from barnabas.security.sasl.mechanism import SCRAMS
from tests.compat.sasl_brokers import (
    PASSWORD,
    USER,
    SaslProcess,
    client_jaas,
    sasl_brokers,
    until_nobody_was_late,
)
from tests.support.java import Java

Tool = Callable[..., str]
REAUTH_MS = 15_000
PER_SECOND = 250
RECORDS = PER_SECOND * REAUTH_MS // 1000 * 4 // 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProcess]:
    options = {"connections.max.reauth.ms": str(REAUTH_MS)}
    with sasl_brokers(tmp_path_factory.mktemp("sasl"), 1, options) as process:
        yield process
        process.check_log()
        assert "canary" not in process.log


@pytest.fixture
def tool(java_tools: Java, broker: SaslProcess, tmp_path: Path) -> Tool:
    """Runs a tool by its class, as a user of this mechanism, and gives what it printed."""

    def run(name: str, *arguments: str, mechanism: str = SCRAMS[1], stdin: str = "") -> str:
        file = tmp_path / "client.properties"
        jaas = client_jaas(mechanism).replace("\\", "\\\\")
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={jaas}\n"
        )
        done = java_tools.run(
            name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}",
            *("--bootstrap-server", broker.bootstrap_servers, *arguments),
            *("--command-config", str(file)),
            stdin=stdin,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAMS])
def test_kafka_topics_logs_in(tool: Tool, mechanism: str) -> None:
    tool("TopicCommand", "--create", "--topic", f"java-{mechanism}", mechanism=mechanism)
    assert f"java-{mechanism}" in tool("TopicCommand", "--list", mechanism=mechanism)


def test_kafka_configs_makes_describes_and_deletes_users(tool: Tool, broker: SaslProcess) -> None:
    users = ("--entity-type", "users", "--entity-name", "carol")
    for config in (
        "SCRAM-SHA-256=[iterations=8192,password=first]",
        "SCRAM-SHA-512=[password=second]",
    ):
        tool("kafka.admin.ConfigCommand", "--alter", *users, "--add-config", config)
    told = tool("kafka.admin.ConfigCommand", "--describe", *users)
    assert "SCRAM-SHA-256=iterations=8192" in told
    assert "SCRAM-SHA-512=iterations=4096" in told
    for mechanism, password in (("SCRAM-SHA-256", "first"), ("SCRAM-SHA-512", "second")):
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "carol",
            "sasl.password": password,
        }
        with barnabas.sync.Admin(settings) as admin:
            admin.topics()
    tool("kafka.admin.ConfigCommand", "--alter", *users, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in tool("kafka.admin.ConfigCommand", "--describe", *users)


def test_our_users_can_be_described_by_kafka_configs(tool: Tool) -> None:
    told = tool("kafka.admin.ConfigCommand", "--describe", "--entity-type", "users")
    assert USER in told
    assert PASSWORD not in told


def test_a_java_producer_logs_in_again_while_it_produces(tool: Tool, broker: SaslProcess) -> None:
    """For longer than its login is valid."""
    numbers = itertools.count()
    until_nobody_was_late(broker, lambda: produce_for_long(tool, broker, f"java-{next(numbers)}"))


def produce_for_long(tool: Tool, broker: SaslProcess, topic: str) -> None:
    tool(
        "ProducerPerformance", "--topic", topic, "--num-records", str(RECORDS), "--throughput",
        str(PER_SECOND), "--record-size", "100",
    )  # fmt: skip
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    with barnabas.sync.Admin(settings) as admin:
        ends = admin.offsets({barnabas.TopicPartition(topic, 0): -1})
    assert [each.offset for each in ends.values()] == [RECORDS]
