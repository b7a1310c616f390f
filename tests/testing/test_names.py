"""Names that people type, and calls that they know from Kafka's client."""

import logging
import threading

import pytest

import barnabas
import barnabas.sync
from barnabas.client.consumer.membership.assignors import chosen
from barnabas.config.alter import broker_option
from barnabas.testing import Kafka


def test_options_that_kafka_removed_say_what_to_use() -> None:
    with pytest.raises(barnabas.InvalidRequest, match=r"removed in Kafka 0\.9.*replica\.lag\.time"):
        broker_option("replica.lag.max.messages")
    for name, instead in (
        ("producer.type", "send_nowait"),
        ("batch.num.messages", "batch.size"),
        ("partitioner.class", "partitioner="),
        ("zookeeper.connect", "bootstrap.servers"),
    ):
        with pytest.raises(barnabas.InvalidRequest, match=instead):
            barnabas.sync.Producer({name: "x"})


def test_names_of_librdkafka_and_java_are_understood() -> None:
    classes = [
        "org.apache.kafka.clients.consumer.RangeAssignor",
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "RoundRobinAssignor",
    ]
    assert [one.name for one in chosen(classes)] == ["range", "cooperative-sticky", "roundrobin"]
    with pytest.raises(barnabas.InvalidRequest, match="no assignor"):
        chosen(["org.example.MyAssignor"])


def test_a_session_shorter_than_three_heartbeats_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "barnabas.client"):
        for session_ms in (6_000, 5_999):
            barnabas.sync.Consumer(
                "orders",
                group_id="billing",
                group_protocol="classic",
                session_timeout_ms=session_ms,
                heartbeat_interval_ms=2_000,
            )
    assert [record.args[1] for record in caplog.records] == [5_999]  # type: ignore[index]


def test_unsubscribe_leaves_the_group_and_subscribe_joins_it_again(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", [b"1", b"2"])
    with barnabas.sync.Consumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
    ) as consumer:
        assert consumer.state == "unjoined"
        assert consumer.getone(timeout=10).value == b"1"
        assert consumer.state == "stable"
        consumer.unsubscribe()
        assert consumer.state == "unjoined"
        assert consumer.assignment() == []
        assert kafka.group("billing").state == "Empty"
        assert kafka.lag("billing") == 1, "the message that was used is committed"
        with pytest.raises(barnabas.InvalidRequest, match="nothing to read"):
            consumer.getone(timeout=10)
        consumer.subscribe("orders")
        assert consumer.getone(timeout=10).value == b"2"
    assert consumer.state == "closed"


def test_wakeup_ends_a_wait_and_loses_nothing(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    with barnabas.sync.Consumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.getmany(timeout=0.5)
        waker = threading.Timer(0.05, consumer.wakeup)
        waker.start()
        with pytest.raises(barnabas.WokenUp):
            consumer.getone(timeout=60)
        waker.join()
        kafka.produce("orders", [b"1"])
        assert consumer.getone(timeout=10).value == b"1"
