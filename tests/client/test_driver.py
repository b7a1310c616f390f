"""The blocking driver against a real broker that comes and goes."""

import threading

import pytest

from barnabas.client.admin import EARLIEST, LATEST
from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import PartitionReader
from barnabas.client.positions import Positions
from barnabas.client.producer import Delivery, Producer
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from tests.conftest import StartBroker
from tests.process import BrokerProcess


def opened(bootstrap_servers: str, **options: int) -> Cluster:
    return open_cluster({"bootstrap.servers": bootstrap_servers}, options)


def read_all(cluster: Cluster, topic: str, partitions: int = 1) -> list[bytes | None]:
    admin = Admin(cluster=cluster)
    all_of_it = [TopicPartition(topic, number) for number in range(partitions)]
    starts = admin.offsets(dict.fromkeys(all_of_it, EARLIEST))
    stops = admin.offsets(dict.fromkeys(all_of_it, LATEST))
    positions = Positions(
        {at: found.offset for at, found in starts.items()},
        {at: found.offset for at, found in stops.items()},
    )
    return [message.value for message in PartitionReader(cluster, positions)]


def test_each_record_is_reported_once_with_its_offset(broker: BrokerProcess, topic: str) -> None:
    reports: list[Delivery] = []
    with opened(broker.bootstrap_servers) as cluster:
        Admin(cluster=cluster).create_topic(topic, partitions=3)
        producer = Producer(cluster, batch_size_max=500, delivered=reports.append)
        for number in range(1000):
            producer.send(topic, b"%d" % number, key=b"%d" % (number % 7), handle=number)
        producer.flush()
        found = read_all(cluster, topic, 3)
    assert sorted(report.handle for report in reports) == list(range(1000))  # type: ignore[type-var]
    assert len({(report.at, report.offset) for report in reports}) == 1000
    assert sorted(found) == sorted(b"%d" % number for number in range(1000))  # type: ignore[type-var]


def test_nothing_is_lost_or_doubled_when_the_broker_is_killed_while_sending(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker()
    reports: list[Delivery] = []
    with opened(broker.bootstrap_servers) as cluster:
        Admin(cluster=cluster).create_topic(topic)
        producer = Producer(cluster, batch_size_max=2_000, delivered=reports.append)
        for life in range(3):
            for number in range(200):
                producer.send(topic, b"%d" % (life * 200 + number))
            broker.kill()
            again = threading.Thread(target=broker.start)
            again.start()
            producer.flush()
            again.join()
        assert [report.error for report in reports] == [None] * 600
        assert read_all(cluster, topic) == [b"%d" % number for number in range(600)]


def test_a_reader_goes_on_when_the_broker_is_back(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    with opened(broker.bootstrap_servers) as cluster:
        producer = Producer(cluster)
        producer.send(topic, b"before")
        producer.flush()
        positions = Positions({TopicPartition(topic, 0): 0}, {TopicPartition(topic, 0): 2})
        messages = iter(PartitionReader(cluster, positions))
        assert next(messages).value == b"before"
        broker.restart()
        with opened(broker.bootstrap_servers) as other:
            producer = Producer(other)
            producer.send(topic, b"after")
            producer.flush()
        assert next(messages).value == b"after"
        assert next(messages, None) is None


def test_a_reader_whose_offset_was_deleted_goes_on_at_the_start(
    broker: BrokerProcess, topic: str
) -> None:
    at = TopicPartition(topic, 0)
    with opened(broker.bootstrap_servers) as cluster:
        producer = Producer(cluster)
        for number in range(5):
            producer.send(topic, b"%d" % number)
        producer.flush()
        assert Admin(cluster=cluster).delete_records({at: 3}) == {at: 3}
        reader = PartitionReader(cluster, Positions({at: 0}, {at: 5}))
        assert [message.value for message in reader] == [b"3", b"4"]


def test_an_offset_ahead_of_the_end_is_an_error(broker: BrokerProcess, topic: str) -> None:
    with opened(broker.bootstrap_servers) as cluster:
        Admin(cluster=cluster).create_topic(topic)
        reader = PartitionReader(cluster, Positions({TopicPartition(topic, 0): 99}))
        with pytest.raises(InvalidRequest) as refused:
            list(reader.poll())
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE


def test_a_producer_that_may_not_create_says_which_topic_is_missing(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({"auto.create.topics.enable": "false"})
    with (
        opened(
            broker.bootstrap_servers, request_timeout_ms=2_000, default_api_timeout_ms=2_000
        ) as cluster,
        pytest.raises(InvalidRequest, match="'absent'") as refused,
    ):
        Producer(cluster).send("absent", b"x")
    assert refused.value.code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_the_options_of_a_broker_can_be_read(broker: BrokerProcess) -> None:
    with opened(broker.bootstrap_servers) as cluster:
        options = {option.name: option for option in Admin(cluster=cluster).broker_options(1)}
    assert options["message.max.bytes"].value == "1048588"
    assert options["listeners"].read_only
