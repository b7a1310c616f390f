"""Each client library connects with TLS and a certificate, and hears clearly when it may not."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.cli.app import run as run_command
from barnabas.cli.security import stored_users
from barnabas.model.errors import Failed, KafkaError
from barnabas.security.sasl.mechanism import SCRAMS
from barnabas.wire.frames import request_frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from bench.proc import rss_mb
from tests.compat.tls_brokers import TlsProcess, tls_brokers
from tests.ports import free_ports_from
from tests.process import KEPT
from tests.support.certificates import Pki, new_pki
from tests.support.java import Java
from tests.waiting import WAIT_S

ck: Any = import_module("confluent_kafka")
kafka: Any = import_module("kafka")
aiokafka: Any = import_module("aiokafka")

MANY = 2_000  # records of 1 KB: frames over many TLS records, and replies over many reads


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return new_pki(tmp_path_factory.mktemp("pki"), "alice")


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def broker(
    request: Any, pki: Pki, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsProcess]:
    with tls_brokers(tmp_path_factory.mktemp("tls"), pki, request.param) as process:
        yield process
        process.check_log()


def rdkafka(broker: TlsProcess) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": broker.pki.path("ca.pem"),
        "ssl.certificate.location": broker.pki.path("alice.pem"),
        "ssl.key.location": broker.pki.path("alice.pem"),
    }


def ours(broker: TlsProcess) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.truststore.location": broker.pki.path("ca.pem"),
        "ssl.keystore.location": broker.pki.path("alice.pem"),
    }


def test_librdkafka_exchanges_records(broker: TlsProcess) -> None:
    config = rdkafka(broker)
    producer = ck.Producer(config)
    for number in range(MANY):
        producer.produce("confluent", b"%d" % number + b"x" * 1_000)
    assert producer.flush(WAIT_S) == 0
    consumer = ck.Consumer({**config, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    seen: list[Any] = []
    while len(seen) < MANY:
        found = consumer.consume(MANY, WAIT_S)
        assert found
        seen += [each.value() for each in found if not each.error()]
    assert seen == [b"%d" % number + b"x" * 1_000 for number in range(MANY)]
    consumer.close()


def contexts(broker: TlsProcess) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=broker.pki.path("ca.pem"))
    context.load_cert_chain(broker.pki.path("alice.pem"))
    return context


def test_kafka_python_exchanges_records(broker: TlsProcess) -> None:
    config = {
        "bootstrap_servers": broker.bootstrap_servers.split(","),
        "security_protocol": "SSL",
        "ssl_cafile": broker.pki.path("ca.pem"),
        "ssl_certfile": broker.pki.path("alice.pem"),
        "ssl_keyfile": broker.pki.path("alice.pem"),
    }
    producer = kafka.KafkaProducer(**config)
    producer.send("kafka-python", b"value").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        *("kafka-python",),
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
        **config,
    )
    assert next(consumer).value == b"value"
    consumer.close()


async def test_aiokafka_exchanges_records(broker: TlsProcess) -> None:
    config = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_context": contexts(broker),
    }
    async with asyncio.timeout(WAIT_S):
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("aiokafka", b"value")
        consumer = aiokafka.AIOKafkaConsumer(
            "aiokafka", group_id="aiokafka", auto_offset_reset="earliest", **config
        )
        async with consumer:
            assert (await consumer.getone()).value == b"value"


async def test_our_client_exchanges_records(broker: TlsProcess) -> None:
    async with asyncio.timeout(WAIT_S):
        async with barnabas.Producer(ours(broker)) as producer:
            for number in range(MANY):
                await producer.send("ours", b"%d" % number + b"x" * 1_000)
        settings = {**ours(broker), "group.id": "ours", "auto.offset.reset": "earliest"}
        seen: list[bytes | None] = []
        async with barnabas.Consumer("ours", settings) as consumer:
            async for message in consumer:
                seen.append(message.value)
                if len(seen) == MANY:
                    break
    assert seen == [b"%d" % number + b"x" * 1_000 for number in range(MANY)]


def test_our_blocking_client_exchanges_records(broker: TlsProcess) -> None:
    with barnabas.sync.Producer(ours(broker)) as producer:
        for number in range(MANY):
            producer.send("blocking", b"%d" % number + b"x" * 1_000)
    settings = {**ours(broker), "group.id": "blocking", "auto.offset.reset": "earliest"}
    seen: list[bytes | None] = []
    with barnabas.sync.Consumer("blocking", settings) as consumer:
        for message in consumer:
            seen.append(message.value)
            if len(seen) == MANY:
                break
    assert seen == [b"%d" % number + b"x" * 1_000 for number in range(MANY)]


def test_the_command_takes_the_options_from_a_file(
    broker: TlsProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in ours(broker).items()))
    assert run_command(["-F", str(file), "topic", "create", "by-command"]) == 0
    assert run_command(["-F", str(file), "topic", "ls"]) == 0
    assert "by-command" in capsys.readouterr().out


def test_pkcs12_and_pem_in_the_options_do_too(broker: TlsProcess) -> None:
    pki = broker.pki
    packed = {
        **ours(broker),
        "ssl.keystore.location": pki.path("alice.p12"),
        "ssl.keystore.password": pki.password,
        "ssl.keystore.type": "PKCS12",
    }
    text = Path(pki.path("alice.pem")).read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    inline = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.pem": Path(pki.path("ca.pem")).read_text(),
        "ssl.key.pem": text[:at],
        "ssl.certificate.pem": text[at:],
    }
    for settings in (packed, inline, {**rdkafka(broker)}):
        with barnabas.sync.Admin(settings) as admin:
            assert len(admin.cluster().brokers) == broker.count


@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ssl.truststore.location": ""}, r"not accepted.*set ssl\.truststore\.location"),
        ({"ssl.keystore.location": ""}, r"requires a certificate of the client"),
        ({"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites":
          "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, "none in common"),
    ],
)  # fmt: skip
async def test_a_client_that_may_not_connect_learns_why_at_once(
    broker: TlsProcess, kind: str, change: dict[str, str], reason: str
) -> None:
    settings = {**ours(broker), **change}

    async def ask() -> None:
        if kind == "asyncio":
            async with barnabas.Admin(settings) as admin:
                await admin.topics()
        else:
            with barnabas.sync.Admin(settings) as blocking:
                blocking.topics()

    with pytest.raises(KafkaError, match=reason):
        await asyncio.wait_for(ask(), WAIT_S)


def test_a_broker_of_another_name_is_refused_unless_that_is_switched_off(
    pki: Pki, tmp_path: Path
) -> None:
    store = pki.server("elsewhere", "elsewhere.example")
    with tls_brokers(tmp_path, pki, 1, {"ssl.keystore.location": store}) as broker:
        with pytest.raises(Failed, match="connect by a name in the certificate"):
            barnabas.sync.Admin(ours(broker)).topics()
        unchecked = {**ours(broker), "ssl.endpoint.identification.algorithm": "none"}
        with barnabas.sync.Admin(unchecked) as admin:
            assert admin.topics().brokers


def test_plain_text_to_a_broker_with_tls_fails(broker: TlsProcess) -> None:
    short = {"default.api.timeout.ms": "2000", "request.timeout.ms": "1000"}
    with pytest.raises(KafkaError):
        barnabas.sync.Admin({"bootstrap.servers": broker.bootstrap_servers, **short}).topics()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_kafkas_tools_connect(java_tools: Java, pki: Pki, tmp_path: Path, version: str) -> None:
    with tls_brokers(tmp_path, pki) as broker:
        file = tmp_path / "client.properties"
        file.write_text(
            f"security.protocol=SSL\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={pki.path('ca.pem')}\nssl.keystore.type=PKCS12\n"
            f"ssl.keystore.location={pki.path('alice.p12')}\nssl.keystore.password={pki.password}\n"
            f"ssl.key.password={pki.password}\nssl.enabled.protocols={version}\n"
        )
        done = java_tools.run(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", broker.bootstrap_servers, "--create", "--topic", "java"),
            *("--command-config", str(file)),
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        broker.check_log()


def test_a_login_over_tls_names_the_user_and_not_the_certificate(pki: Pki, tmp_path: Path) -> None:
    """SASL_SSL, also between brokers, with both of our clients and librdkafka."""
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    data = tmp_path / "data"
    with stored_users.opened(str(data), None) as keeper:
        for user in ("alice", "broker"):
            stored_users.set_password(keeper, user, "canary-7f3a", SCRAMS, 4096)
    options = {
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{scram} required"
        ' username="broker" password="canary-7f3a";',
    }
    process = TlsProcess(
        data,
        {**KEPT, **pki.broker("requested"), **options},
        port=free_ports_from(3),
        log=tmp_path / "broker.log",
    )
    process.pki, process.count, process.protocol = pki, 3, "SASL_SSL"
    first = process.port
    process.start()
    process.port = first
    try:
        login = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "canary-7f3a",
        }
        producer = ck.Producer({**rdkafka(process), **login})
        producer.produce("both", b"value")
        assert producer.flush(WAIT_S) == 0
        settings = {**ours(process), **login, "auto.offset.reset": "earliest", "group.id": "both"}
        with barnabas.sync.Consumer("both", settings) as consumer:
            for message in consumer:
                assert message.value == b"value"
                break
        with (
            barnabas.sync.Admin({**settings, "sasl.password": "wrong"}) as refused,
            pytest.raises(KafkaError, match="login as 'alice' failed"),
        ):
            refused.topics()
        process.check_log()
        assert "canary" not in process.log
    finally:
        process.stop()


def test_an_idle_connection_takes_little_memory(pki: Pki, tmp_path: Path) -> None:
    """10,000 of them fit into 400 MB."""
    count = 300
    hello = request_frame(18, 0, 1, "idle", ApiVersionsRequest())
    context = ssl.create_default_context(cafile=pki.path("ca.pem"))
    anyone = {"ssl.client.auth": "none"}
    with tls_brokers(tmp_path, pki, options=anyone) as broker, ExitStack() as up:

        def connect() -> None:
            plain = socket.create_connection((broker.host, broker.port), timeout=WAIT_S)
            opened = up.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
            opened.sendall(hello)
            assert opened.recv(4096)

        for _ in range(20):
            connect()
        before = rss_mb(broker.pid)
        for _ in range(count):
            connect()
        assert (rss_mb(broker.pid) - before) * 1024 / count < 40
