"""Topic and broker configuration, by each library."""

import re

import pytest

from barnabas.model.errors import Code
from tests.compat.adapters.client import Client, Record, Refused, Setting
from tests.process import IN_CLUSTER

DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": IN_CLUSTER["min.insync.replicas"],
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
}


def test_every_option_is_described_with_its_default(client: Client, topic: str) -> None:
    client.create_topic(topic)
    configs = client.configs(topic)
    assert {name: configs[name] for name in DEFAULTS} == {
        name: Setting(value, overridden=False) for name, value in DEFAULTS.items()
    }


def test_what_a_topic_was_created_with_is_an_override(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "1234", "cleanup.policy": "compact"})
    configs = client.configs(topic)
    assert configs["retention.ms"] == Setting("1234", overridden=True)
    assert configs["cleanup.policy"] == Setting("compact", overridden=True)
    assert not configs["segment.bytes"].overridden


def test_replacing_configs_takes_back_what_is_not_named(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "1234"})
    client.replace_configs(topic, {"max.message.bytes": "2000000"})
    configs = client.configs(topic)  # perhaps of another broker
    assert configs["max.message.bytes"] == Setting("2000000", True)
    assert configs["retention.ms"] == Setting(DEFAULTS["retention.ms"], False)


@pytest.mark.parametrize("library", ["confluent", "kafka-python"])  # aiokafka cannot
def test_altering_configs_leaves_alone_what_is_not_named(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "1234", "segment.ms": "5678"})
    client.alter_configs(topic, {"max.message.bytes": "2000000", "segment.ms": None})
    assert client.configs(topic)["max.message.bytes"] == Setting("2000000", True)
    assert not client.configs(topic)["segment.ms"].overridden
    assert client.configs(topic)["retention.ms"] == Setting("1234", True)


@pytest.mark.parametrize(
    "bad",
    [{"no.such.option": "1"}, {"retention.ms": "soon"}, {"min.insync.replicas": "0"}],
    ids=["unknown", "no number", "too small"],
)
def test_a_bad_change_changes_nothing(client: Client, topic: str, bad: dict[str, str]) -> None:
    client.create_topic(topic, configs={"segment.ms": "5678"})
    with pytest.raises(Refused) as refused:
        client.replace_configs(topic, {**bad, "segment.ms": "9999"})
    assert refused.value.code == Code.INVALID_CONFIG
    assert client.configs(topic)["segment.ms"].value != "9999"


def test_configs_of_no_topic_are_refused(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.configs(topic)
    assert refused.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.plain
def test_the_broker_describes_itself(client: Client, topic: str) -> None:
    client.create_topic(topic)
    leader = client.partitions(topic)[0].leader
    configs = client.broker_configs(leader)
    assert configs["broker.id"].value == configs["node.id"].value == str(leader)
    assert re.fullmatch(r"PLAINTEXT://127\.0\.0\.1:[1-9][0-9]+", configs["listeners"].value or "")
    assert configs["advertised.listeners"].value == configs["listeners"].value
    assert configs["num.io.threads"].value == "8"
    assert configs["num.partitions"].value == "1"
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["log.segment.bytes"].value == DEFAULTS["segment.bytes"]


def test_a_change_is_in_force_at_once(client: Client, topic: str) -> None:
    client.create_topic(topic)
    with client.producer(acks="all") as producer:
        producer.send(topic, [Record(b"x" * 5000)])
        client.replace_configs(topic, {"max.message.bytes": "1000"})
        with pytest.raises(Refused) as refused:
            producer.send(topic, [Record(b"x" * 5000)])
        assert refused.value.code == Code.MESSAGE_TOO_LARGE
        client.replace_configs(topic, {})
        assert producer.send(topic, [Record(b"x" * 5000)]) == [1]
