"""A broker that stops, or dies, and comes back while its clients stay, by each library."""

import threading
from collections.abc import Iterator

import pytest

from tests.compat.adapters.client import Client, Record, Refused
from tests.compat.conftest import LIBRARIES
from tests.compat.waiting import until
from tests.conftest import StartBroker
from tests.process import BrokerProcess
from tests.waiting import WAIT_S

COUNT = 4000


@pytest.fixture
def own(start_broker: StartBroker) -> BrokerProcess:
    return start_broker()


@pytest.fixture
def client(own: BrokerProcess, library: str) -> Iterator[Client]:
    client = LIBRARIES[library](own.bootstrap_servers)
    yield client
    client.close()


def bring_back(broker: BrokerProcess, how: str) -> None:
    if how == "killed":
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_what_was_acknowledged_is_there_after(
    own: BrokerProcess, client: Client, topic: str, how: str
) -> None:
    client.create_topic(topic, partitions=2, configs={"retention.ms": "123456789"})
    records = [Record(b"%d" % n, key=b"k", headers=(("h", b"v"),)) for n in range(100)]
    with client.producer() as producer:
        producer.send(topic, records[:60])
    bring_back(own, how)
    until(lambda: sorted(client.partitions(topic)) == [0, 1])
    # Of several brokers, another one may answer this, to which a library is still connecting.
    until(lambda: client.configs(topic)["retention.ms"].value == "123456789")
    with client.producer() as producer:
        assert producer.send(topic, records[60:]) == list(range(60, 100))
    with client.consumer(topic) as consumer:
        assert [Record(s.value, s.key, s.headers) for s in consumer.read(100)] == records


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_an_idempotent_producer_goes_on_with_nothing_lost_or_twice(
    own: BrokerProcess, client: Client, topic: str, how: str
) -> None:
    """Batches that were written but not acknowledged are sent again, and must not count twice."""
    client.create_topic(topic)
    sending = threading.Event()
    outcomes: list[int | Refused] = []

    def send_all() -> None:
        with client.producer(idempotent=True, acks="all") as producer:
            for number in range(COUNT):
                producer.begin(topic, Record(b"%d" % number))
                if number == COUNT // 4:
                    sending.set()
                if number % 500 == 499:
                    outcomes.extend(producer.finish())

    sender = threading.Thread(target=send_all)
    sender.start()
    try:
        assert sending.wait(WAIT_S)
        bring_back(own, how)
    finally:
        sender.join(WAIT_S)
    assert not sender.is_alive()
    assert [each for each in outcomes if isinstance(each, Refused)] == []
    assert outcomes == list(range(COUNT))
    with client.consumer(topic) as consumer:
        assert [seen.value for seen in consumer.read(COUNT)] == [b"%d" % n for n in range(COUNT)]
    assert client.latest(topic) == COUNT


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_consumer_goes_on_where_it_was(
    own: BrokerProcess, client: Client, topic: str, how: str
) -> None:
    client.create_topic(topic)
    with client.producer() as producer:
        producer.send(topic, [Record(b"%d" % n) for n in range(10)])
    with client.consumer(topic) as consumer:
        assert [seen.offset for seen in consumer.read(10)] == list(range(10))
        bring_back(own, how)
        with client.producer() as producer:
            producer.send(topic, [Record(b"%d" % n) for n in range(10, 20)])
        assert [seen.value for seen in consumer.read(10)] == [b"%d" % n for n in range(10, 20)]
