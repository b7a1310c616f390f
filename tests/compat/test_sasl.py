"""Each client library logs in with each mechanism, and hears clearly when it may not."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import KafkaError
from tests.compat.sasl_brokers import ODD_USER, PASSWORD, USER, SaslProcess, sasl_brokers
from tests.waiting import WAIT_S, until

ck: Any = import_module("confluent_kafka")
kafka: Any = import_module("kafka")
aiokafka: Any = import_module("aiokafka")

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def broker(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProcess]:
    with sasl_brokers(tmp_path_factory.mktemp("sasl"), request.param) as process:
        yield process
        process.check_log()
        assert "canary" not in process.log


def topic_of(mechanism: str, library: str) -> str:
    return f"{library}-{mechanism}".lower()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_and_exchanges_records(broker: SaslProcess, mechanism: str) -> None:
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    topic = topic_of(mechanism, "confluent")
    producer = ck.Producer(config)
    producer.produce(topic, b"value", b"key")
    assert producer.flush(WAIT_S) == 0
    consumer = ck.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    while message is None or message.error():
        message = consumer.poll(WAIT_S)
    assert message.value() == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_and_exchanges_records(broker: SaslProcess, mechanism: str) -> None:
    config = {
        "bootstrap_servers": broker.bootstrap_servers.split(","),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    topic = topic_of(mechanism, "kafka-python")
    producer = kafka.KafkaProducer(**config)
    producer.send(topic, b"value").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
        **config,
    )
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_logs_in_and_exchanges_records(broker: SaslProcess, mechanism: str) -> None:
    config = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    topic = topic_of(mechanism, "aiokafka")
    async with asyncio.timeout(WAIT_S):
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(topic, b"value")
        consumer = aiokafka.AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **config
        )
        async with consumer:
            assert (await consumer.getone()).value == b"value"


def ours(broker: SaslProcess, mechanism: str, user: str = USER) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_our_client_logs_in_and_exchanges_records(
    broker: SaslProcess, mechanism: str
) -> None:
    topic = topic_of(mechanism, "ours")
    async with asyncio.timeout(WAIT_S):
        async with barnabas.Producer(ours(broker, mechanism)) as producer:
            await producer.send(topic, b"value")
        consumer = barnabas.Consumer(
            topic, {**ours(broker, mechanism), "group.id": topic, "auto.offset.reset": "earliest"}
        )
        async with consumer:
            async for message in consumer:
                assert message.value == b"value"
                break


async def test_our_client_connects_although_each_call_is_cancelled_before_a_login_can_end(
    broker: SaslProcess,
) -> None:
    """To derive the key of a password takes longer than each call waits."""
    async with asyncio.timeout(WAIT_S), barnabas.Admin(ours(broker, "SCRAM-SHA-512")) as admin:
        cluster = admin._cluster
        while cluster.known is None:
            before = dict(cluster._connections)
            with suppress(TimeoutError):
                async with asyncio.timeout(0 if not before else WAIT_S):
                    await cluster.view()
            await asyncio.sleep(0)
        assert len(cluster._connections) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_blocking_client_logs_in_and_exchanges_records(
    broker: SaslProcess, mechanism: str
) -> None:
    topic = topic_of(mechanism, "blocking")
    with barnabas.sync.Producer(ours(broker, mechanism)) as producer:
        producer.send(topic, b"value")
    consumer = barnabas.sync.Consumer(
        topic, {**ours(broker, mechanism), "group.id": topic, "auto.offset.reset": "earliest"}
    )
    with consumer:
        for message in consumer:
            assert message.value == b"value"
            break


def test_librdkafka_reports_a_wrong_password(broker: SaslProcess) -> None:
    heard: list[Any] = []
    client = ck.admin.AdminClient(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": "wrong",
            "error_cb": heard.append,
            "log_level": 0,
        }
    )
    with pytest.raises(ck.KafkaException):
        client.list_topics(timeout=5)

    def reported() -> bool:
        client.poll(0.1)
        return any("invalid credentials" in each.str() for each in heard)

    until(reported, lambda: heard)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_reports_a_wrong_password(broker: SaslProcess, mechanism: str) -> None:
    errors = import_module("kafka.errors")
    with pytest.raises((errors.SaslAuthenticationFailedError, errors.KafkaError)):
        kafka.KafkaAdminClient(
            bootstrap_servers=broker.bootstrap_servers.split(",")[0],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password="wrong",
            api_version_auto_timeout_ms=3_000,
        )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_reports_a_wrong_password_at_once(broker: SaslProcess, mechanism: str) -> None:
    settings = {**ours(broker, mechanism), "sasl.password": "wrong"}
    with (
        barnabas.sync.Admin(settings) as admin,
        pytest.raises(KafkaError, match=r"login as 'alice' failed.*invalid credentials"),
    ):
        admin.topics()


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_a_user_with_an_odd_name_logs_in(broker: SaslProcess, mechanism: str) -> None:
    with barnabas.sync.Admin(ours(broker, mechanism, ODD_USER)) as admin:
        admin.topics()
    client = ck.admin.AdminClient(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": ODD_USER,
            "sasl.password": PASSWORD,
        }
    )
    assert client.list_topics(timeout=WAIT_S).brokers


def test_a_user_that_is_made_or_changed_can_log_in_on_every_broker_at_once(
    broker: SaslProcess,
) -> None:
    with barnabas.sync.Admin(ours(broker, "SCRAM-SHA-512")) as admin:
        for password in ("first", "second"):
            admin.set_password("carol", password, mechanisms=["SCRAM-SHA-256"])
            for server in broker.bootstrap_servers.split(","):
                settings = {
                    **ours(broker, "SCRAM-SHA-256", "carol"),
                    "bootstrap.servers": server,
                    "sasl.password": password,
                }
                with barnabas.sync.Admin(settings) as carol:
                    carol.topics()
        assert {each.name for each in admin.users()} >= {USER, "carol"}
        admin.delete_user("carol")
        settings["sasl.password"] = "second"
        with barnabas.sync.Admin(settings) as carol, pytest.raises(KafkaError, match="login"):
            carol.topics()


def test_no_file_of_the_broker_has_a_password(broker: SaslProcess) -> None:
    """Only credentials are stored: salted and hashed."""
    assert broker.data is not None
    for file in Path(broker.data).rglob("*"):
        if file.is_file():
            assert PASSWORD.encode() not in file.read_bytes()
