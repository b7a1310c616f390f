"""What administrators ask of groups: lists, descriptions, offsets moved and forgotten."""

from dataclasses import dataclass

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPythonPartition

from barnabas.model.errors import Code
from tests.compat.groups.team import OPTIONS
from tests.conftest import StartBroker, broker_with
from tests.process import REPLICAS, BrokerProcess
from tests.waiting import WAIT_S, until

broker = broker_with(OPTIONS)


@dataclass
class Desk:
    """An administrator with one topic and one group."""

    bootstrap: str
    topic: str

    def __post_init__(self) -> None:
        self.group = f"group-of-{self.topic}"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.admin.create_topics([NewTopic(self.topic, 2, REPLICAS)])[self.topic].result(WAIT_S)

    def consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "client.id": "desk",
                "enable.auto.commit": False,
            }
        )

    def commit(self, offset: int, metadata: str = "", partition: int = 0) -> None:
        consumer = self.consumer()
        place = TopicPartition(self.topic, partition, offset, metadata)
        done = consumer.commit(offsets=[place], asynchronous=False)
        assert done is not None
        assert [each.error for each in done] == [None]
        consumer.close()

    def committed(self) -> dict[int, tuple[int, str | None]]:
        wanted = [ConsumerGroupTopicPartitions(self.group)]
        found = self.admin.list_consumer_group_offsets(wanted)[self.group].result(WAIT_S)
        return {each.partition: (each.offset, each.metadata) for each in found.topic_partitions}

    def state(self) -> ConsumerGroupState:
        described = self.admin.describe_consumer_groups([self.group])[self.group].result(WAIT_S)
        state: ConsumerGroupState = described.state
        return state


@pytest.fixture
def desk(broker: BrokerProcess, topic: str) -> Desk:
    return Desk(broker.bootstrap_servers, topic)


def test_offsets_come_back_with_their_metadata(desk: Desk) -> None:
    desk.commit(7, "so far, and no further: ünï")
    desk.commit(9, partition=1)
    assert desk.committed() == {0: (7, "so far, and no further: ünï"), 1: (9, "")}


def test_offsets_survive_a_killed_broker(start_broker: StartBroker, topic: str) -> None:
    own = start_broker()
    desk = Desk(own.bootstrap_servers, topic)
    for offset in range(20):
        desk.commit(offset, f"number {offset}")
    own.kill()
    own.start()
    desk.admin = AdminClient({"bootstrap.servers": own.bootstrap_servers})
    assert desk.committed() == {0: (19, "number 19")}


def test_a_group_is_listed_and_described(desk: Desk) -> None:
    consumer = desk.consumer()
    consumer.subscribe([desk.topic])
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, desk.state)
    listed = desk.admin.list_consumer_groups().result(WAIT_S)
    assert (desk.group, ConsumerGroupState.STABLE) in [
        (each.group_id, each.state) for each in listed.valid
    ]
    only_empty = desk.admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(WAIT_S)
    assert desk.group not in [each.group_id for each in only_empty.valid]
    described = desk.admin.describe_consumer_groups([desk.group])[desk.group].result(WAIT_S)
    assert described.state is ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    (member,) = described.members
    assert (member.client_id, member.host) == ("desk", "/127.0.0.1")
    assert {each.partition for each in member.assignment.topic_partitions} == {0, 1}
    consumer.close()
    assert desk.state() is ConsumerGroupState.EMPTY


def test_offsets_of_an_empty_group_can_be_moved(desk: Desk) -> None:
    desk.commit(100)
    moved = ConsumerGroupTopicPartitions(desk.group, [TopicPartition(desk.topic, 0, 5)])
    desk.admin.alter_consumer_group_offsets([moved])[desk.group].result(WAIT_S)
    assert desk.committed()[0][0] == 5


def test_offsets_of_a_busy_group_cannot_be_moved(desk: Desk) -> None:
    consumer = desk.consumer()
    consumer.subscribe([desk.topic])
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, desk.state)
    moved = ConsumerGroupTopicPartitions(desk.group, [TopicPartition(desk.topic, 0, 5)])
    answer = desk.admin.alter_consumer_group_offsets([moved])[desk.group].result(WAIT_S)
    (refusal,) = [each.error for each in answer.topic_partitions]
    assert refusal.code() == Code.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaException) as refused:
        desk.admin.delete_consumer_groups([desk.group])[desk.group].result(WAIT_S)
    assert refused.value.args[0].code() == Code.NON_EMPTY_GROUP
    consumer.close()


def test_a_deleted_group_is_gone(desk: Desk) -> None:
    desk.commit(5)
    desk.admin.delete_consumer_groups([desk.group])[desk.group].result(WAIT_S)
    assert desk.committed() == {}
    with pytest.raises(KafkaException) as refused:
        desk.admin.delete_consumer_groups([desk.group])[desk.group].result(WAIT_S)
    assert refused.value.args[0].code() == Code.GROUP_ID_NOT_FOUND


def test_offsets_are_forgotten_one_by_one(broker: BrokerProcess, desk: Desk) -> None:
    desk.commit(5)
    desk.commit(6, partition=1)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.delete_group_offsets(desk.group, [KafkaPythonPartition(desk.topic, 0)])
    admin.close()
    assert desk.committed() == {1: (6, "")}


def test_a_topic_that_does_not_exist_has_no_offsets(desk: Desk) -> None:
    consumer = desk.consumer()
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[TopicPartition("no-such-topic", 0, 5)], asynchronous=False)
    assert refused.value.args[0].code() == Code.UNKNOWN_TOPIC_OR_PARTITION
    consumer.close()


def test_offsets_die_with_their_topic(desk: Desk) -> None:
    """The next topic of the name starts at its own beginning."""
    desk.commit(5)
    desk.admin.delete_topics([desk.topic])[desk.topic].result(WAIT_S)
    desk.admin.create_topics([NewTopic(desk.topic, 2, REPLICAS)])[desk.topic].result(WAIT_S)
    until(lambda: desk.committed() == {}, desk.committed)


def test_one_library_sees_what_another_committed(broker: BrokerProcess, desk: Desk) -> None:
    desk.commit(42, "by librdkafka")
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=desk.group, enable_auto_commit=False
    )
    place = KafkaPythonPartition(desk.topic, 0)
    consumer.assign([place])
    found = consumer.committed(place, metadata=True)
    # confluent-kafka sends the zero at the end of a C string along, and reads on up to one.
    assert (found.offset, found.metadata.rstrip("\0")) == (42, "by librdkafka")
    consumer.commit({place: OffsetAndMetadata(43, "by kafka-python\0", -1)})
    consumer.close()
    assert desk.committed()[0] == (43, "by kafka-python")


def test_the_offsets_topic_is_made_as_kafka_makes_it(desk: Desk) -> None:
    desk.commit(1)
    topic = desk.admin.list_topics("__consumer_offsets", timeout=WAIT_S).topics[
        "__consumer_offsets"
    ]
    assert len(topic.partitions) == 50
