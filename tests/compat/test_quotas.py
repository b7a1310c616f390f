"""Quotas as Kafka's own tools set them, and as librdkafka and Java clients meet them.

No test measures time: clients report that they were told to wait, and every record arrives.
"""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from barnabas.sync import Admin
from tests.compat.conftest import Address, Clients
from tests.support.java import Java
from tests.waiting import WAIT_S

ck: Any = import_module("confluent_kafka")

LIMIT = 75_000.0
RECORDS, SIZE = 2, 900_000  # each is more than the limit allows in all windows

Configs = Callable[..., str]
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture
def configs(java_tools: Java, broker: Address) -> Configs:
    """Runs kafka-configs and gives what it printed."""

    def run(*arguments: str) -> str:
        done = java_tools.run(CONFIGS, "--bootstrap-server", broker.bootstrap_servers, *arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def limited(broker: Address, topic: str) -> Iterator[str]:
    """A client id with a quota for all that it does."""
    limits = {"producer_byte_rate": LIMIT, "consumer_byte_rate": LIMIT}
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_quota({"client-id": topic}, limits)
        yield topic
        admin.alter_quota({"client-id": topic}, dict.fromkeys(limits))


@pytest.mark.parametrize(
    ("entity", "config"),
    [
        (("users", "alice"), "producer_byte_rate=1024,consumer_byte_rate=2048"),
        (("users", None), "request_percentage=12.5"),
        (("clients", "app"), "controller_mutation_rate=5.5"),
        (("clients", None), "producer_byte_rate=1000000000"),
        (("users", "alice", "clients", "app"), "consumer_byte_rate=77"),
        (("users", None, "clients", None), "consumer_byte_rate=1000000001"),
        (("ips", "10.9.8.7"), "connection_creation_rate=20"),
        (("ips", None), "connection_creation_rate=100000"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_kafka_configs_sets_describes_and_deletes_quotas(
    configs: Configs, entity: tuple[str | None, ...], config: str
) -> None:
    named: list[str] = []
    for type_, name in zip(entity[::2], entity[1::2], strict=True):
        named += ["--entity-type", str(type_)]
        named += ["--entity-default"] if name is None else ["--entity-name", name]
    configs("--alter", *named, "--add-config", config)
    described = configs("--describe", *named)
    for limit in config.split(","):
        name, _, value = limit.partition("=")
        found = re.search(rf"{name}=([0-9.E]+)", described)
        assert found is not None, described
        assert float(found[1]) == float(value)
    names = ",".join(limit.partition("=")[0] for limit in config.split(","))
    configs("--alter", *named, "--delete-config", names)
    assert "_rate=" not in configs("--describe", *named)


def test_a_librdkafka_producer_must_wait_and_loses_nothing(
    broker: Address, clients: Clients, topic: str, limited: str
) -> None:
    clients["confluent"].create_topic(topic)
    waits: list[float] = []
    delivered: list[Any] = []
    producer = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": limited,
            "batch.num.messages": 1,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    for _ in range(RECORDS):
        producer.produce(
            topic, b"v" * SIZE, on_delivery=lambda error, message: delivered.append(error)
        )
    assert producer.flush(WAIT_S) == 0
    assert delivered == [None] * RECORDS
    assert max(waits) > 0


def test_a_librdkafka_consumer_must_wait_and_gets_every_record(
    broker: Address, clients: Clients, topic: str, limited: str
) -> None:
    clients["confluent"].create_topic(topic)
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode() + b"v" * SIZE, partition=0)
    assert producer.flush(WAIT_S) == 0
    waits: list[float] = []
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": limited,
            "group.id": topic,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < RECORDS:
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert found == [str(number).encode() + b"v" * SIZE for number in range(RECORDS)]
    assert max(waits) > 0


def test_a_java_producer_reports_that_it_had_to_wait(
    java_tools: Java, broker: Address, clients: Clients, topic: str, limited: str
) -> None:
    clients["confluent"].create_topic(topic)
    done = java_tools.run(
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic", topic, "--num-records", str(RECORDS), "--record-size", str(SIZE),
        "--throughput", "-1", "--print-metrics", "--producer-props",
        f"bootstrap.servers={broker.bootstrap_servers}", f"client.id={limited}",
        "batch.size=1", "max.in.flight.requests.per.connection=1",
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"{RECORDS} records sent" in done.stdout
    found = re.search(r"produce-throttle-time-max:\S*\s*:\s*([0-9.]+)", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) > 0


def test_our_client_produces_and_consumes_within_its_quota(
    broker: Address, clients: Clients, topic: str, limited: str
) -> None:
    from barnabas.sync import Consumer, Producer

    clients["confluent"].create_topic(topic)
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, client_id=limited) as producer:
        for number in range(RECORDS):
            producer.send(topic, str(number).encode() + b"v" * SIZE)
        producer.flush()
    with Consumer(
        topic,
        bootstrap_servers=servers,
        client_id=limited,
        group_id=topic,
        auto_offset_reset="earliest",
    ) as consumer:
        found = [message.value for _, message in zip(range(RECORDS), consumer, strict=False)]
    expected = {str(number).encode() + b"v" * SIZE for number in range(RECORDS)}
    assert set(found) == expected
