"""Every codec, written by each library and read by each."""

import pytest

from tests.clients.adapters.client import Client, Record
from tests.clients.conftest import Clients

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
READERS = ["confluent", "kafka-python", "aiokafka"]

# Several blocks of every codec's framing, some of it compressible and some of it not.
RECORDS = [
    Record(
        b"%d " % number * 40 + bytes((number * prime) % 251 for prime in range(1, 100)),
        key=b"key %d" % (number % 7),
        headers=(("number", b"%d" % number),),
        timestamp_ms=1_700_000_000_000 + number,
    )
    for number in range(2000)
]


@pytest.mark.parametrize("codec", CODECS)
def test_what_one_library_compresses_all_can_read(
    clients: Clients, client: Client, topic: str, codec: str
) -> None:
    client.create_topic(topic)
    with client.producer(codec=codec) as producer:
        assert producer.send(topic, RECORDS) == list(range(len(RECORDS)))
    for reader in READERS:
        with clients[reader].consumer(topic) as consumer:
            seen = consumer.read(len(RECORDS))
        assert [
            Record(each.value, each.key, each.headers, each.timestamp_ms) for each in seen
        ] == RECORDS, reader


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_one_record_are_read_as_well(client: Client, topic: str, codec: str) -> None:
    client.create_topic(topic)
    with client.producer(codec=codec, idempotent=True) as producer:
        for number in range(5):
            assert producer.send(topic, [Record(b"%d" % number * 50)]) == [number]
    with client.consumer(topic, offset=2) as consumer:
        assert [seen.value for seen in consumer.read(3)] == [b"%d" % n * 50 for n in (2, 3, 4)]
