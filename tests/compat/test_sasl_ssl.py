"""Client libraries log in over TLS, to one broker and to three that log in to each other."""

import asyncio
import ssl
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import KafkaError
from tests.compat.sasl_brokers import PASSWORD, USER, SaslProcess, sasl_brokers
from tests.support.certificates import Pki, new_pki
from tests.waiting import WAIT_S

ck: Any = import_module("confluent_kafka")
kafka: Any = import_module("kafka")
aiokafka: Any = import_module("aiokafka")

MECHANISMS = ["PLAIN", "SCRAM-SHA-512"]


class Encrypted(NamedTuple):
    broker: SaslProcess
    pki: Pki


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def encrypted(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    directory = tmp_path_factory.mktemp("sasl-ssl")
    pki = new_pki(tmp_path_factory.mktemp("pki"))
    with sasl_brokers(directory, request.param, pki.broker(), "SASL_SSL") as process:
        yield Encrypted(process, pki)
        process.check_log()
        assert "canary" not in process.log


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_over_tls(encrypted: Encrypted, mechanism: str) -> None:
    config = {
        "bootstrap.servers": encrypted.broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": encrypted.pki.path("ca.pem"),
        "sasl.mechanisms": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    topic = f"confluent-{mechanism}"
    producer = ck.Producer(config)
    producer.produce(topic, b"value")
    assert producer.flush(WAIT_S) == 0
    consumer = ck.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    while message is None or message.error():
        message = consumer.poll(WAIT_S)
    assert message.value() == b"value"
    consumer.close()


def python_options(encrypted: Encrypted, mechanism: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": encrypted.broker.bootstrap_servers.split(","),
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=encrypted.pki.path("ca.pem")),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_over_tls(encrypted: Encrypted, mechanism: str) -> None:
    producer = kafka.KafkaProducer(**python_options(encrypted, mechanism))
    producer.send(f"kafka-python-{mechanism}", b"value").get(WAIT_S)
    producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_logs_in_over_tls(encrypted: Encrypted, mechanism: str) -> None:
    async with (
        asyncio.timeout(WAIT_S),
        aiokafka.AIOKafkaProducer(**python_options(encrypted, mechanism)) as producer,
    ):
        await producer.send_and_wait(f"aiokafka-{mechanism}", b"value")


def ours(encrypted: Encrypted, mechanism: str) -> dict[str, str]:
    return {
        "bootstrap.servers": encrypted.broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": encrypted.pki.path("ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_our_clients_log_in_over_tls(encrypted: Encrypted, mechanism: str) -> None:
    settings, topic = ours(encrypted, mechanism), f"ours-{mechanism}"
    async with asyncio.timeout(WAIT_S), barnabas.Producer(settings) as producer:
        await producer.send(topic, b"value")
    given = {**settings, "group.id": topic, "auto.offset.reset": "earliest"}
    with barnabas.sync.Consumer(topic, given) as consumer:
        for message in consumer:
            assert message.value == b"value"
            break


def test_our_client_says_what_a_login_needs(encrypted: Encrypted) -> None:
    settings = {
        **ours(encrypted, "PLAIN"),
        "security.protocol": "SSL",
        "default.api.timeout.ms": "1000",
    }
    del settings["sasl.username"], settings["sasl.password"]
    with (
        barnabas.sync.Admin(settings) as admin,
        pytest.raises(KafkaError, match="requires a login"),
    ):
        admin.topics()
