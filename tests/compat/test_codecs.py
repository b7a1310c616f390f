"""Every codec, written by each library and read by each."""

import pytest

from barnabas.wire.batch import CODEC_MASK
from barnabas.wire.compression import Codec
from barnabas.wire.records import iter_batches
from tests.compat.adapters.client import Client, Record
from tests.compat.conftest import Address, Clients
from tests.raw import RawClient, records_in
from tests.support.probe import advertised_apis

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
FIND_COORDINATOR = 10
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
def test_batches_are_kept_as_they_were_compressed(
    client: Client, broker: Address, topic: str, codec: str
) -> None:
    """A library that misses an API it knows may send uncompressed without a word."""
    no_groups = FIND_COORDINATOR not in advertised_apis(broker.host, broker.port)
    if client.name == "confluent" and codec == "lz4" and no_groups:
        # It takes such a broker for one of 2014, which had no LZ4.
        pytest.skip("librdkafka sends no LZ4 to a broker without FindCoordinator")
    client.create_topic(topic)
    with client.producer(codec=codec) as producer:
        producer.send(topic, [Record(b"value " * 100)] * 20)
    with RawClient(broker.host, broker.port) as raw:
        nodes = {node.node_id: node for node in raw.metadata().brokers}
    leader = nodes[client.partitions(topic)[0].leader]
    with RawClient(leader.host, leader.port) as raw:
        stored = records_in(raw.fetch(topic, 0))
    found = {Codec(header.attributes & CODEC_MASK) for header, _ in iter_batches(stored)}
    assert found == {Codec.named(codec)}


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_one_record_are_read_as_well(client: Client, topic: str, codec: str) -> None:
    client.create_topic(topic)
    with client.producer(codec=codec, idempotent=True) as producer:
        for number in range(5):
            assert producer.send(topic, [Record(b"%d" % number * 50)]) == [number]
    with client.consumer(topic, offset=2) as consumer:
        assert [seen.value for seen in consumer.read(3)] == [b"%d" % n * 50 for n in (2, 3, 4)]
