"""The blocking driver against a real broker that comes and goes."""

import pytest

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.client.blocking.producer import Producer
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition
from tests.conftest import StartBroker
from tests.process import BrokerProcess
from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow


def opened(bootstrap_servers: str, **options: int | str) -> ClusterClient:
    return open_cluster({"bootstrap.servers": bootstrap_servers}, options)


def read_all(cluster: ClusterClient, topic: str, partitions: int = 1) -> list[bytes | None]:
    all_of_it = [TopicPartition(topic, number) for number in range(partitions)]
    with PartitionConsumer(all_of_it, cluster=cluster) as consumer:
        consumer.seek_to_beginning()
        consumer.stop_at(consumer.end_offsets())
        return [message.value for message in consumer]


def write(bootstrap_servers: str, topic: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value)


def test_a_reader_goes_on_when_the_broker_is_back(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    with opened(broker.bootstrap_servers) as cluster:
        write(broker.bootstrap_servers, topic, b"before")
        messages = PartitionConsumer([(topic, 0)], cluster=cluster)
        messages.seek((topic, 0), 0)
        messages.stop_at({(topic, 0): 2})
        assert next(messages).value == b"before"
        broker.restart()
        write(broker.bootstrap_servers, topic, b"after")
        assert next(messages).value == b"after"
        assert next(messages, None) is None


def test_a_reader_whose_offset_was_deleted_continues_by_auto_offset_reset(
    broker: BrokerProcess, topic: str
) -> None:
    at = TopicPartition(topic, 0)
    with opened(broker.bootstrap_servers, auto_offset_reset="earliest") as cluster:
        write(broker.bootstrap_servers, topic, *(b"%d" % number for number in range(5)))
        assert Admin(cluster=cluster).delete_records({at: 3}) == {at: 3}
        reader = PartitionConsumer([at], cluster=cluster)
        reader.seek(at, 0)
        reader.stop_at({at: 5})
        assert [message.value for message in reader] == [b"3", b"4"]


def test_an_offset_that_is_not_there_is_an_error_without_a_policy(
    broker: BrokerProcess, topic: str
) -> None:
    with opened(broker.bootstrap_servers, auto_offset_reset="none") as cluster:
        Admin(cluster=cluster).create_topic(topic)
        reader = PartitionConsumer([(topic, 0)], cluster=cluster)
        with pytest.raises(InvalidRequest, match=r"auto\.offset\.reset is none"):
            reader.getmany(timeout=WAIT_S)
        reader.seek((topic, 0), 99)
        with pytest.raises(InvalidRequest, match="offset 99 is not in the log") as refused:
            reader.getmany(timeout=WAIT_S)
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE


def test_a_producer_that_may_not_create_says_which_topic_is_missing(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({"auto.create.topics.enable": "false"})
    for block_ms in (3_000, 60_000):  # more if the machine is too busy to ask in this time
        with (
            Producer(bootstrap_servers=broker.bootstrap_servers, max_block_ms=block_ms) as producer,
            pytest.raises(KafkaError, match="'absent'") as refused,
        ):
            producer.send("absent", b"x")
        if isinstance(refused.value, InvalidRequest):
            break
    assert isinstance(refused.value, InvalidRequest)
    assert refused.value.code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_the_options_of_a_broker_can_be_read(broker: BrokerProcess) -> None:
    with opened(broker.bootstrap_servers) as cluster:
        options = {option.name: option for option in Admin(cluster=cluster).broker_options(1)}
    assert options["message.max.bytes"].value == "1048588"
    assert options["listeners"].read_only
