"""What the articles say about offsets: commits, positions, resets, their topic."""

from typing import Any

import pytest

import barnabas.sync
from barnabas.config.broker import OPTIONS as BROKER_OPTIONS
from barnabas.config.client import OPTIONS as CLIENT_OPTIONS
from barnabas.model.errors import KafkaError
from barnabas.testing import Kafka
from tests.articles.test_groups import requests
from tests.waiting import WAIT_S

AT = barnabas.TopicPartition("orders", 0)
TOPIC = "__consumer_offsets"


def consumer(kafka: Kafka, **more: Any) -> barnabas.sync.Consumer[Any, Any]:
    options = {"group_id": "billing", "auto_offset_reset": "earliest", **more}
    return barnabas.sync.Consumer("orders", bootstrap_servers=kafka.bootstrap_servers, **options)


@pytest.fixture
def orders(kafka: Kafka) -> Kafka:
    kafka.create_topic("orders")
    kafka.produce("orders", [str(n) for n in range(20)])
    return kafka


def option(kafka: Kafka, name: str) -> str | None:
    return {each.name: each.value for each in kafka.admin.topic_options(TOPIC)}[name]


def test_a_committed_offset_is_that_of_the_next_message(orders: Kafka) -> None:
    with consumer(orders, enable_auto_commit=False) as first:
        for _ in range(13):
            message = first.getone(timeout=WAIT_S)
        assert (message.topic, message.partition, message.offset) == ("orders", 0, 12)
        assert first.position(AT) == 13
        assert first.committed() == {}, "nothing was asked for"
        first.commit(message)
        assert first.committed()[AT].offset == 13
        first.commit({AT: 5})
        assert first.committed()[AT].offset == 5
    with consumer(orders) as second:
        assert second.getone(timeout=WAIT_S).offset == 5
    with consumer(orders, group_id="audit") as third:
        assert third.getone(timeout=WAIT_S).offset == 0, "offsets are under the name of their group"


def test_the_broker_takes_whatever_offset_is_committed(orders: Kafka) -> None:
    """Back to 3 after 13, and the messages are read again: they are still there."""
    with consumer(orders, enable_auto_commit=False) as first:
        messages = [first.getone(timeout=WAIT_S) for _ in range(14)]
        first.commit(messages[12])
        first.commit({AT: 3})
    with consumer(orders, enable_auto_commit=False) as second:
        assert [second.getone(timeout=WAIT_S).value for _ in range(3)] == [b"3", b"4", b"5"]
        second.commit({AT: 999})
        assert second.committed()[AT].offset == 999


def test_a_commit_that_fails_for_now_is_tried_again(orders: Kafka) -> None:
    with consumer(orders, enable_auto_commit=False) as first:
        message = first.getone(timeout=WAIT_S)
        orders.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
        first.commit(message)
        assert first.committed()[AT].offset == 1
    assert requests(orders, "OffsetCommit") == 3


def test_what_was_read_is_committed_at_the_end(orders: Kafka) -> None:
    with consumer(orders, auto_commit_interval_ms=3_600_000) as first:
        first.getone(timeout=WAIT_S)
        first.getone(timeout=WAIT_S)
    assert orders.group("billing").partitions[0].committed == 2


def test_a_group_without_offsets_begins_by_auto_offset_reset(orders: Kafka) -> None:
    with consumer(orders, auto_offset_reset="latest") as latest:
        found: list[Any] = []

        def is_at_end() -> bool:
            found.extend(latest.getmany(timeout=0.05))
            return bool(latest.assignment()) and latest.position(AT) == 20

        orders.wait_until(is_at_end)
        assert found == []
    with consumer(orders, group_id="other") as earliest:
        assert earliest.getone(timeout=WAIT_S).offset == 0
    with (
        consumer(orders, group_id="third", auto_offset_reset="none") as none,
        pytest.raises(barnabas.InvalidRequest, match=r"auto\.offset\.reset is none"),
    ):
        none.getone(timeout=WAIT_S)


def test_an_offset_out_of_range_is_reset_in_the_same_way(orders: Kafka) -> None:
    with consumer(orders) as earliest:
        earliest.getone(timeout=WAIT_S)
        earliest.seek(AT, 1_000)
        assert earliest.getone(timeout=WAIT_S).offset == 0
    with consumer(orders, group_id="none") as first:
        first.getone(timeout=WAIT_S)
    orders.admin.delete_records({("orders", 0): 15})
    with (
        consumer(orders, group_id="none", auto_offset_reset="none") as none,
        pytest.raises(barnabas.InvalidRequest, match="offset 1"),
    ):
        none.getone(timeout=WAIT_S)


def test_an_idle_consumer_commits_nothing_again(orders: Kafka) -> None:
    with consumer(orders, auto_commit_interval_ms=1) as first:
        while first.getone(timeout=WAIT_S).offset < 19:
            pass
        orders.wait_until(lambda: first.getmany(timeout=0.01) == [] and orders.lag("billing") == 0)
        before = requests(orders, "OffsetCommit")
        for _ in range(20):
            first.getmany(timeout=0.005)
        assert requests(orders, "OffsetCommit") == before


@pytest.mark.kafka(
    brokers=3,
    settings={"offsets.topic.num.partitions": 50, "offsets.topic.replication.factor": 3},
)
def test_the_topic_of_offsets_is_made_for_the_first_consumer(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", ["1"])
    assert TOPIC not in kafka.admin.topics().topics
    with consumer(kafka) as first:
        first.getone(timeout=WAIT_S)
    partitions = kafka.admin.topic(TOPIC).partitions
    assert len(partitions) == 50
    assert {len(each.replicas) for each in partitions} == {3}
    assert option(kafka, "cleanup.policy") == "compact"


def test_the_topic_of_offsets_may_be_made_changed_and_deleted_by_hand(orders: Kafka) -> None:
    orders.create_topic(TOPIC, 10, configs={"cleanup.policy": "compact"})
    with consumer(orders) as first:
        first.getone(timeout=WAIT_S)
    assert len(orders.admin.topic(TOPIC).partitions) == 10
    orders.admin.alter_topic(TOPIC, put={"segment.bytes": "1000000"})
    assert option(orders, "segment.bytes") == "1000000"
    with pytest.raises(KafkaError):
        orders.produce(TOPIC, ["junk"])
    orders.admin.delete_topic(TOPIC)
    assert TOPIC not in orders.admin.topics().topics


def test_offsets_and_groups_are_messages_and_their_end_is_a_tombstone(orders: Kafka) -> None:
    with consumer(orders, group_protocol="classic") as first:
        first.getone(timeout=WAIT_S)
    before = len(orders.records(TOPIC))
    assert before >= 2
    assert all(record.key for record in orders.records(TOPIC))
    orders.admin.delete_group("billing")
    tombstones = orders.records(TOPIC)[before:]
    assert len(tombstones) == 2, "one for the offset, one for the group"
    assert [record.value for record in tombstones] == [None, None]


def test_nothing_is_sent_to_a_consumer_that_does_not_ask(orders: Kafka) -> None:
    before = requests(orders, "Fetch")
    with barnabas.sync.PartitionConsumer(
        [AT], bootstrap_servers=orders.bootstrap_servers, auto_offset_reset="earliest"
    ) as reader:
        reader.seek(AT, 0)
        assert requests(orders, "Fetch") == before, "it is open, and has not asked for messages"
        assert len(reader.getmany(timeout=WAIT_S)) > 0
        assert requests(orders, "Fetch") > before


def test_options_have_the_defaults_that_the_articles_name() -> None:
    for name, default in (
        ("auto.commit.interval.ms", 5_000),
        ("heartbeat.interval.ms", 3_000),
        ("max.poll.interval.ms", 300_000),
        ("max.poll.records", 500),
        ("enable.auto.commit", True),
        ("auto.offset.reset", "latest"),
        ("partition.assignment.strategy", ("range", "cooperative-sticky")),
    ):
        assert CLIENT_OPTIONS[name].default == default, name
    for name, default in (
        ("offsets.topic.num.partitions", 50),
        ("offsets.topic.replication.factor", 3),
        ("offsets.retention.minutes", 10_080),
        ("group.min.session.timeout.ms", 6_000),
        ("log.retention.hours", 168),
        # Kafka's values now; the articles have 300,000 and 10,000.
        ("group.max.session.timeout.ms", 1_800_000),
        ("replica.lag.time.max.ms", 30_000),
    ):
        assert BROKER_OPTIONS[name].default == default, name


def test_sessions_must_be_longer_than_heartbeats(orders: Kafka) -> None:
    with consumer(
        orders,
        group_protocol="classic",
        session_timeout_ms=60_000,
        heartbeat_interval_ms=20_000,
    ) as first:
        first.getone(timeout=WAIT_S)
    with pytest.raises(barnabas.InvalidRequest, match=r"heartbeat\.interval\.ms"):
        consumer(orders, session_timeout_ms=6_000, heartbeat_interval_ms=6_000)


def test_a_poll_gives_no_more_than_max_poll_records(orders: Kafka) -> None:
    with consumer(orders, max_poll_records=7) as first:
        sizes: list[int] = []
        while sum(sizes) < 20:
            sizes.append(len(first.getmany(timeout=WAIT_S)))
    assert max(sizes) == 7
