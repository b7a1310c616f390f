"""Consumers that wait, and topics that are made when they are asked for, by each library."""

from collections.abc import Iterator

import pytest

from barnabas.model.errors import Code
from tests.compat.adapters.client import Client, Record, Refused
from tests.compat.conftest import LIBRARIES
from tests.conftest import StartBroker
from tests.waiting import WAIT_S

LONG_MS = 240_000
"""A fetch that is not woken takes longer than a test waits. librdkafka waits 300 s at most."""
assert LONG_MS > WAIT_S * 1000


def test_a_waiting_consumer_gets_a_record_when_it_comes(client: Client, topic: str) -> None:
    client.create_topic(topic)
    with client.consumer(topic, max_wait_ms=LONG_MS) as consumer, client.producer() as producer:
        consumer.poll_nothing()
        for number in range(5):
            producer.send(topic, [Record(b"%d" % number)])
            assert [seen.value for seen in consumer.read(1)] == [b"%d" % number]


def test_a_topic_is_made_for_its_first_record(client: Client, topic: str) -> None:
    with client.producer() as producer:
        assert producer.send(topic, [Record(b"first")]) == [0]
    assert topic in client.topic_names()
    with client.consumer(topic) as consumer:
        assert [seen.value for seen in consumer.read(1)] == [b"first"]


# How each library is told not to wait for a topic that will not come.
IMPATIENT: dict[str, dict[str, object]] = {
    "confluent": {"topic.metadata.propagation.max.ms": 500, "message.timeout.ms": 2000},
    "kafka-python": {"max_block_ms": 1000},
    "aiokafka": {"request_timeout_ms": 1000},
}


@pytest.fixture
def strict(start_broker: StartBroker, library: str) -> Iterator[Client]:
    """A client of a broker that makes no topic unasked."""
    broker = start_broker({"auto.create.topics.enable": "false"})
    client = LIBRARIES[library](broker.bootstrap_servers)
    yield client
    client.close()


def test_no_topic_is_made_where_that_is_switched_off(strict: Client, topic: str) -> None:
    with strict.producer(options=IMPATIENT[strict.name]) as producer, pytest.raises(Refused):
        producer.send(topic, [Record(b"lost")])
    with pytest.raises(Refused) as refused:
        strict.partitions(topic)
    assert refused.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert topic not in strict.topic_names()
