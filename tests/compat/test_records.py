"""Records out and back in, by each library: nothing is lost, changed or reordered."""

import time

import pytest

from barnabas.model.errors import Code
from tests.compat.adapters.client import Client, Headers, Record, Refused
from tests.process import REPLICAS

HEADERS: Headers = (
    ("plain", b"value"),
    ("null", None),
    ("empty", b""),
    ("twice", b"one"),
    ("twice", b"two"),
    ("größe", "日本".encode()),
    ("bytes", bytes(range(256))),
)

SHAPES = {
    "plain": Record(b"value", key=b"key"),
    "null key": Record(b"value"),
    "empty key": Record(b"value", key=b""),
    "null value": Record(None, key=b"key"),
    "empty value": Record(b"", key=b"key"),
    "every byte": Record(bytes(range(256)), key=bytes(range(255, -1, -1))),
}


def test_records_of_every_shape_come_back_as_they_were(client: Client, topic: str) -> None:
    client.create_topic(topic)
    headers = HEADERS
    if client.name == "kafka-python":  # it does not send headers without a value
        headers = tuple(header for header in HEADERS if header[1] is not None)
    sent = [*SHAPES.values(), Record(b"value", key=b"key", headers=headers)]
    if client.name == "confluent":  # the others insist on a key or a value
        sent += [Record(None), Record(None, headers=headers)]
    with client.producer() as producer:
        assert producer.send(topic, sent) == list(range(len(sent)))
    with client.consumer(topic) as consumer:
        seen = consumer.read(len(sent))
    assert [Record(each.value, each.key, each.headers) for each in seen] == sent
    assert [each.offset for each in seen] == list(range(len(sent)))


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_the_order_of_sending_is_the_order_of_reading(
    client: Client, topic: str, idempotent: bool
) -> None:
    client.create_topic(topic)
    records = [Record(b"%d" % number) for number in range(3000)]
    with client.producer(idempotent=idempotent) as producer:
        assert producer.send(topic, records) == list(range(3000))
    with client.consumer(topic) as consumer:
        assert [seen.value for seen in consumer.read(3000)] == [each.value for each in records]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_whatever_is_acknowledged(client: Client, topic: str, acks: str) -> None:
    client.create_topic(topic)
    with client.producer(acks=acks) as producer:
        offsets = producer.send(topic, [Record(b"%d" % number) for number in range(100)])
        if acks != "0":
            assert offsets == list(range(100))
    with client.consumer(topic) as consumer:
        assert [seen.value for seen in consumer.read(100)] == [b"%d" % n for n in range(100)]


def test_the_time_a_producer_gives_is_kept(client: Client, topic: str) -> None:
    client.create_topic(topic)
    now = int(time.time() * 1000)
    times = [now, now - 86_400_000, now + 1000, 0]
    with client.producer() as producer:
        producer.send(topic, [Record(b"x", timestamp_ms=each) for each in times])
    with client.consumer(topic) as consumer:
        seen = consumer.read(len(times))
    # librdkafka takes 0 for "now".
    given = slice(0, 3) if client.name == "confluent" else slice(None)
    assert [each.timestamp_ms for each in seen][given] == times[given]
    assert not any(each.by_broker for each in seen)


def test_the_broker_gives_the_time_where_the_topic_says_so(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    with client.producer() as producer:
        producer.send(topic, [Record(b"%d" % n, timestamp_ms=1_000_000 + n) for n in range(10)])
    after = int(time.time() * 1000)
    with client.consumer(topic) as consumer:
        for seen in consumer.read(10):
            assert before <= seen.timestamp_ms <= after
            assert seen.by_broker


def test_a_time_too_far_off_is_refused(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"message.timestamp.after.max.ms": "60000"})
    tomorrow = int(time.time() * 1000) + 86_400_000
    with client.producer() as producer:
        with pytest.raises(Refused) as refused:
            producer.send(topic, [Record(b"x", timestamp_ms=tomorrow)])
        assert refused.value.code == Code.INVALID_TIMESTAMP
        assert producer.send(topic, [Record(b"x")]) == [0]


def test_a_record_of_10_mb_goes_through_where_it_is_allowed(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"max.message.bytes": "12000000"})
    large = Record(bytes(range(256)) * 40_000, key=b"large")  # 10.24 MB
    with client.producer() as producer:
        producer.send(topic, [Record(b"before")])
        producer.send(topic, [large])
        producer.send(topic, [Record(b"after")])
    with client.consumer(topic) as consumer:
        seen = consumer.read(3)
    assert [each.value for each in seen] == [b"before", large.value, b"after"]


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_a_record_over_the_limit_is_refused_and_the_next_is_not(
    client: Client, topic: str, idempotent: bool
) -> None:
    client.create_topic(topic, configs={"max.message.bytes": "100000"})
    with client.producer(idempotent=idempotent) as producer:
        with pytest.raises(Refused) as refused:
            producer.send(topic, [Record(b"x" * 100_001)])
        assert refused.value.code == Code.MESSAGE_TOO_LARGE
    with client.producer(idempotent=idempotent) as producer:
        assert producer.send(topic, [Record(b"x" * 99_000)]) == [0]


def test_no_more_replicas_are_asked_for_than_there_are(client: Client, topic: str) -> None:
    """As in Kafka 4.3: what has all of its replicas in sync has enough of them."""
    client.create_topic(topic, configs={"min.insync.replicas": str(REPLICAS + 1)})
    with client.producer(acks="all") as producer:
        assert producer.send(topic, [Record(b"taken")]) == [0]
