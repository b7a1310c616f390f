"""Names that people type, and calls that they know from Kafka's client."""

import logging
import re
import threading

import pytest

import barnabas
import barnabas.sync
from barnabas.client.consumer.membership.assignors import chosen
from barnabas.config.alter import broker_option
from barnabas.config.client import OPTIONS as CLIENT_OPTIONS
from barnabas.config.client import ClientConfig
from barnabas.config.unsupported import OLD_BROKER, OLD_CLIENT, OTHER_CLIENTS
from barnabas.testing import Kafka
from tests.waiting import WAIT_S


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


def test_names_of_other_clients_mean_the_same_here() -> None:
    for theirs, ours, value in (
        ("metadata.broker.list", "bootstrap.servers", "broker:9092"),
        ("request.required.acks", "acks", "1"),
        ("message.send.max.retries", "retries", "3"),
        ("queue.buffering.max.ms", "linger.ms", "5"),
        ("compression.codec", "compression.type", "lz4"),
        ("message.timeout.ms", "delivery.timeout.ms", "70000"),
        ("max.in.flight", "max.in.flight.requests.per.connection", "2"),
        ("auto.commit.enable", "enable.auto.commit", "false"),
        ("fetch.message.max.bytes", "max.partition.fetch.bytes", "1000"),
        ("fetch.wait.max.ms", "fetch.max.wait.ms", "10"),
        ("topic.metadata.refresh.interval.ms", "metadata.max.age.ms", "1000"),
    ):
        said, meant = ClientConfig({theirs: value}), ClientConfig({ours: value})
        attribute = ours.replace(".", "_")
        assert getattr(said, attribute) == getattr(meant, attribute), theirs
        assert getattr(said, attribute) != getattr(ClientConfig(), attribute), theirs


@pytest.mark.parametrize("name", [*OTHER_CLIENTS, *OLD_CLIENT])
def test_other_names_of_kafkas_clients_are_refused_with_a_reason(name: str) -> None:
    reason = OTHER_CLIENTS.get(name) or OLD_CLIENT[name]
    with pytest.raises(barnabas.InvalidRequest, match=re.escape(f"{name}: {reason}")):
        ClientConfig({name: "1"})
    keyword = name.replace(".", "_")
    with pytest.raises(barnabas.InvalidRequest, match=re.escape(reason)):
        ClientConfig(**{keyword: "1"})


@pytest.mark.parametrize("name", OLD_BROKER)
def test_old_names_of_broker_options_say_what_to_use(name: str) -> None:
    with pytest.raises(barnabas.InvalidRequest, match=re.escape(f"{name}: {OLD_BROKER[name]}")):
        broker_option(name)
    for instead in re.findall(r"\buse ([a-z.]+\.[a-z.]+[a-z])", OLD_BROKER[name]):
        assert broker_option(instead).name == instead


def test_a_replacement_that_is_named_exists() -> None:
    for reason in (*OTHER_CLIENTS.values(), *OLD_CLIENT.values()):
        for name in re.findall(r"\buse ([a-z.]+\.[a-z.]+[a-z])", reason):
            assert name in CLIENT_OPTIONS or name.startswith("barnabas."), reason


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
        assert consumer.getone(timeout=WAIT_S).value == b"1"
        assert consumer.state == "stable"
        consumer.unsubscribe()
        assert consumer.state == "unjoined"
        assert consumer.assignment() == []
        assert kafka.group("billing").state == "Empty"
        assert kafka.lag("billing") == 1, "the message that was used is committed"
        with pytest.raises(barnabas.InvalidRequest, match="nothing to read"):
            consumer.getone(timeout=WAIT_S)
        consumer.subscribe("orders")
        assert consumer.getone(timeout=WAIT_S).value == b"2"
    assert consumer.state == "closed"


def test_wakeup_ends_a_wait_and_loses_nothing(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    with barnabas.sync.Consumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
    ) as consumer:
        kafka.wait_until(lambda: not consumer.getmany(timeout=0.05) and consumer.assignment())
        waker = threading.Timer(0.05, consumer.wakeup)
        waker.start()
        with pytest.raises(barnabas.WokenUp):
            consumer.getone(timeout=WAIT_S)
        waker.join()
        kafka.produce("orders", [b"1"])
        assert consumer.getone(timeout=WAIT_S).value == b"1"
