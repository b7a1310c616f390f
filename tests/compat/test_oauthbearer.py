"""Client libraries log in with tokens of an identity provider, and log in again in time."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import KafkaError
from tests.compat.sasl_brokers import (
    PASSWORD,
    USER,
    SaslProcess,
    sasl_brokers,
    until_nobody_was_late,
)
from tests.security.sasl.tokens import jwk, jwks, signed
from tests.waiting import WAIT_S

ck: Any = import_module("confluent_kafka")
kafka: Any = import_module("kafka")
aiokafka: Any = import_module("aiokafka")
REAUTH_MS = 15_000
LOGINS = 1.3  # for how many logins each client goes on: it must log in again once


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProcess]:
    directory = tmp_path_factory.mktemp("oauth")
    (directory / "keys.json").write_bytes(jwks(jwk("RSA")))
    options = {
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory}/keys.json",
        "sasl.oauthbearer.expected.issuer": "https://id.example",
        "sasl.oauthbearer.expected.audience": "kafka",
        "connections.max.reauth.ms": str(REAUTH_MS),
    }
    with sasl_brokers(directory, 1, options) as process:
        yield process
        process.check_log()
        assert "canary" not in process.log


def token(kind: str = "RSA") -> tuple[str, int]:
    """And when it ends."""
    now = int(time.time())
    return signed({"iat": now, "exp": now + 300}, kind=kind), now + 300


def test_librdkafka_logs_in_with_a_token(broker: SaslProcess) -> None:
    producer = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": lambda config: token(),
        }
    )
    producer.produce("confluent", b"value")
    assert producer.flush(WAIT_S) == 0


async def test_aiokafka_logs_in_with_a_token(broker: SaslProcess) -> None:
    abc: Any = import_module("aiokafka.abc")

    class Provider(abc.AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token()[0]

    async with asyncio.timeout(WAIT_S):
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        )
        async with producer:
            await producer.send_and_wait("aiokafka", b"value")


def test_our_client_logs_in_with_a_token_from_a_file(broker: SaslProcess, tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.file": str(file),
    }
    file.write_text(token()[0] + "\n")
    with barnabas.sync.Producer(settings) as producer:
        producer.send("ours", b"value")
    file.write_text(token("another")[0])
    with barnabas.sync.Admin(settings) as admin, pytest.raises(KafkaError, match="login failed"):
        admin.topics()


def test_librdkafka_logs_in_again_and_loses_no_record(broker: SaslProcess) -> None:
    until_nobody_was_late(broker, lambda: librdkafka_goes_on(broker))


def librdkafka_goes_on(broker: SaslProcess) -> None:
    late = broker.log.count("has expired")
    heard: list[Any] = []
    producer = ck.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "error_cb": heard.append,
        }
    )
    delivered: list[Any] = []
    end = time.monotonic() + LOGINS * REAUTH_MS / 1000
    sent = 0
    while time.monotonic() < end:
        producer.produce("again", b"value", on_delivery=lambda error, _: delivered.append(error))
        sent += 1
        producer.flush(WAIT_S)
        producer.poll(0.05)
    assert len(delivered) == sent
    assert not any(delivered)
    assert not heard or broker.log.count("has expired") > late, heard


def ours(broker: SaslProcess) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def blocking_goes_on(broker: SaslProcess, number: int, end: float) -> None:
    topic = f"blocking-again-{number}"
    more = {"group.id": topic, "auto.offset.reset": "earliest"}
    with (
        barnabas.sync.Producer(ours(broker)) as producer,
        barnabas.sync.Consumer(topic, {**ours(broker), **more}) as consumer,
    ):
        sent = 0
        while time.monotonic() < end:
            assert producer.send(topic, b"value").offset == sent
            assert consumer.getone().offset == sent
            sent += 1
        consumer.commit()


def test_our_clients_go_on_after_their_logins_have_ended(broker: SaslProcess) -> None:
    """asyncio and blocking ones, at the same time: each for longer than a login."""
    numbers = itertools.count()
    until_nobody_was_late(broker, lambda: asyncio.run(ours_go_on(broker, next(numbers))))


async def ours_go_on(broker: SaslProcess, number: int) -> None:
    topic = f"ours-again-{number}"
    end = time.monotonic() + LOGINS * REAUTH_MS / 1000
    more = {"group.id": topic, "auto.offset.reset": "earliest"}
    blocking = asyncio.create_task(asyncio.to_thread(blocking_goes_on, broker, number, end))
    sent = 0
    async with (
        asyncio.timeout(WAIT_S),
        barnabas.Producer(ours(broker)) as producer,
        barnabas.Consumer(topic, {**ours(broker), **more}) as consumer,
    ):
        while time.monotonic() < end:
            assert (await producer.send(topic, b"value")).offset == sent
            assert (await consumer.getone()).offset == sent
            sent += 1
        await consumer.commit()
        await blocking
    assert sent
