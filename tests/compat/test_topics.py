"""Topics, by each library: created, described, grown and deleted."""

import pytest

from barnabas.model.errors import Code
from tests.compat.adapters.client import Client, Record, Refused
from tests.compat.waiting import until
from tests.process import BROKERS, REPLICAS


def test_a_created_topic_is_listed_with_its_partitions(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=3)
    assert topic in client.topic_names()
    partitions = client.partitions(topic)
    assert sorted(partitions) == [0, 1, 2]
    for placement in partitions.values():
        assert len(placement.replicas) == REPLICAS
        assert sorted(placement.in_sync) == sorted(placement.replicas)
        assert placement.leader == placement.replicas[0]


def test_a_name_is_taken_once(client: Client, topic: str) -> None:
    client.create_topic(topic)
    with pytest.raises(Refused) as refused:
        client.create_topic(topic)
    assert refused.value.code == Code.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["../x", "a b", ".", "..", "x" * 250, "naïve"])
def test_names_that_are_no_file_names_are_refused(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(name)
    assert refused.value.code == Code.INVALID_TOPIC_EXCEPTION


def test_a_topic_needs_a_partition(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(topic, partitions=0)
    assert refused.value.code == Code.INVALID_PARTITIONS


def test_there_are_no_more_replicas_than_brokers(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(topic, replicas=BROKERS + 2)
    assert refused.value.code == Code.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "configs",
    [{"no.such.option": "1"}, {"retention.ms": "soon"}, {"cleanup.policy": "burn"}],
    ids=["unknown", "no number", "no choice"],
)
def test_a_topic_with_a_bad_option_is_not_created(
    client: Client, topic: str, configs: dict[str, str]
) -> None:
    with pytest.raises(Refused) as refused:
        client.create_topic(topic, configs=configs)
    assert refused.value.code == Code.INVALID_CONFIG
    assert topic not in client.topic_names()


def test_partitions_are_added_and_serve(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=1)
    with client.producer() as producer:
        producer.send(topic, [Record(b"before")])
        client.add_partitions(topic, 3)
        assert sorted(client.partitions(topic)) == [0, 1, 2]
    with client.producer() as producer:
        assert producer.send(topic, [Record(b"after")], partition=2) == [0]
    with client.consumer(topic, partition=2) as consumer:
        assert [seen.value for seen in consumer.read(1)] == [b"after"]
    with client.consumer(topic) as consumer:
        assert [seen.value for seen in consumer.read(1)] == [b"before"]


@pytest.mark.parametrize("total", [3, 2])
def test_partitions_are_never_taken_away(client: Client, topic: str, total: int) -> None:
    client.create_topic(topic, partitions=3)
    with pytest.raises(Refused) as refused:
        client.add_partitions(topic, total)
    assert refused.value.code == Code.INVALID_PARTITIONS
    assert len(client.partitions(topic)) == 3


def test_partitions_of_no_topic_are_not_added(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.add_partitions(topic, 3)
    assert refused.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_is_gone_with_its_records(client: Client, topic: str) -> None:
    client.create_topic(topic)
    with client.producer() as producer:
        producer.send(topic, [Record(b"old")])
    client.delete_topic(topic)
    until(lambda: topic not in client.topic_names())
    client.create_topic(topic)
    until(lambda: client.latest(topic) == 0)
    with client.producer() as producer:
        assert producer.send(topic, [Record(b"new")]) == [0]
    with client.consumer(topic) as consumer:
        assert [seen.value for seen in consumer.read(1)] == [b"new"]


def test_a_topic_that_is_not_there_cannot_be_deleted(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        client.delete_topic(topic)
    assert refused.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_thousand_partitions_are_one_topic(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=1000)
    assert sorted(client.partitions(topic)) == list(range(1000))
    with client.producer() as producer:
        for partition in range(0, 1000, 50):
            producer.begin(topic, Record(b"%d" % partition), partition)
        assert producer.finish() == [0] * 20
    for partition in (0, 950):
        with client.consumer(topic, partition=partition) as consumer:
            assert [seen.value for seen in consumer.read(1)] == [b"%d" % partition]
    client.delete_topic(topic)
