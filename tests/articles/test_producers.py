"""What the articles say about producers: keys, partitioners, synchronous and asynchronous."""

from collections import Counter

import barnabas.sync
from barnabas.testing import Kafka
from tests.articles.test_groups import requests
from tests.waiting import WAIT_S


def test_keys_are_spread_evenly_and_each_has_one_partition(kafka: Kafka) -> None:
    kafka.create_topic("orders", 4)
    with barnabas.sync.Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for _ in range(2):
            for number in range(4_000):
                producer.send_nowait("orders", b"", key=b"customer-%d" % number)
    records = kafka.records("orders")
    shares = Counter(record.partition for record in records)
    assert sum(shares.values()) == 8_000
    assert all(1_800 < shares[partition] < 2_200 for partition in range(4)), shares
    assert len({(record.key, record.partition) for record in records}) == 4_000


def test_a_partitioner_of_ones_own_takes_the_key_modulo_the_partitions(kafka: Kafka) -> None:
    """The article's: 20 messages with the keys 0 to 3, to 4 partitions."""

    def by_number(topic: str, key: bytes | None, value: object, partitions: int) -> int:
        return int(key or b"0") % partitions

    kafka.create_topic("orders", 4)
    with barnabas.sync.Producer(
        bootstrap_servers=kafka.bootstrap_servers, partitioner=by_number
    ) as producer:
        for number in range(20):
            producer.send_nowait("orders", b"message %d" % number, key=b"%d" % (number % 4))
    for partition in range(4):
        found = kafka.records("orders", partition=partition)
        assert [record.key for record in found] == [b"%d" % partition] * 5


def test_a_list_is_sent_without_waiting_and_flushed_as_one(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    before = requests(kafka, "Produce")
    with barnabas.sync.Producer(
        bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000
    ) as producer:
        sent = [producer.send_nowait("orders", b"%d" % number) for number in range(100)]
        producer.flush()
        assert [delivery.result().offset for delivery in sent] == [*range(100)]
    assert requests(kafka, "Produce") - before == 1, "they left in one batch"


def test_send_waits_for_the_answer_and_send_nowait_does_not(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    with barnabas.sync.Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("orders", b"1")
        assert len(kafka.records("orders")) == 1, "it is there when send returns"
        kafka.slow(20_000, api="Produce")
        delivery = producer.send_nowait("orders", b"2")
        assert not delivery.done()
        kafka.heal()
        kafka.clock.advance(20)
        assert delivery.result(timeout=WAIT_S).offset == 1


def test_a_message_names_its_topic_and_carries_its_place(kafka: Kafka) -> None:
    for topic in ("orders", "clicks"):
        kafka.create_topic(topic)
        kafka.produce(topic, [topic])
    (message,) = kafka.records("clicks")
    assert (message.topic, message.partition, message.offset) == ("clicks", 0, 0)
    assert message.value == b"clicks"
