"""Listeners with TLS on real brokers: who connects, as whom, and what is said about the others."""

import asyncio
import gc
import json
import ssl
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.cluster.peers import Peers
from barnabas.broker.security import certificates, tls_listener
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.model.ports import Stream
from barnabas.security.certificate import read_certificate
from barnabas.security.principal import Principal
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork
from barnabas.system.tls import stream
from barnabas.system.tls.contexts import client_context
from barnabas.system.tls.records import TlsRecords
from barnabas.system.tls.stores import read_key_store, read_trust_store
from barnabas.system.tls.stream import connect_tls
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.clustered import NOBODY, Clustered, _nobody, cluster_of
from tests.broker.running import creatable
from tests.support.certificates import Pki, new_pki
from tests.waiting import WAIT_S, eventually

R = TypeVar("R", bound=ProtocolMessage)
ENCRYPTED = {"listeners": "SSL://127.0.0.1:0"}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return new_pki(tmp_path_factory.mktemp("pki"), "alice")


def context_of(pki: Pki, user: str = "") -> ssl.SSLContext:
    keys = read_key_store(pki.path(f"{user}.pem"), None, None, None, None) if user else None
    return client_context(keys, read_trust_store(pki.path("ca.pem"), None, None))


class EncryptedClient:
    """Asks brokers over TLS."""

    def __init__(self, context: ssl.SSLContext, *brokers: Broker) -> None:
        log = Logger(StringIO())
        self._context = context
        self._network = SystemNetwork(log)
        self._peers = Peers(NOBODY, self._connect, log, _nobody, "test")
        self._peers.known({BrokerId(each.id): Address("127.0.0.1", each.port) for each in brokers})
        self.first = brokers[0].id

    async def _connect(self, host: str, port: int) -> Stream:
        return await connect_tls(
            await self._network.connect(host, port, near=False), self._context, host
        )

    async def ask(
        self, request: ProtocolMessage, expected: type[R], version: int, broker: int | None = None
    ) -> R:
        at = BrokerId(self.first if broker is None else broker)
        answer = await self._peers.call(at, request, timeout_ms=30_000, version=version)
        assert isinstance(answer, expected)
        return answer

    def close(self) -> None:
        self._peers.close()


@asynccontextmanager
async def client_of(cluster: Clustered, context: ssl.SSLContext) -> AsyncIterator[EncryptedClient]:
    client = EncryptedClient(context, *cluster.brokers.values())
    try:
        yield client
    finally:
        client.close()


async def create(client: EncryptedClient, name: str, replicas: int) -> None:
    request = CreateTopicsRequest(topics=[creatable(name, 1, replicas)])
    (created,) = (await client.ask(request, CreateTopicsResponse, 7)).topics
    assert not created.error_code, created.error_message


async def produce(client: EncryptedClient, topic: str, broker: int, value: bytes) -> None:
    data = PartitionProduceData(index=0, records=encode_batch([Record(0, 0, None, value)]))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = await client.ask(request, ProduceResponse, 9, broker)
    assert answer.responses[0].partition_responses[0].error_code == 0


def said(cluster: Clustered, id_: int = 1) -> list[dict[str, object]]:
    return [json.loads(line) for line in cluster.logs[id_].getvalue().splitlines()]


def reasons(cluster: Clustered) -> list[str]:
    closed = (each for each in said(cluster) if each["event"] == "connection closed")
    return [str(each.get("reason")) for each in closed]


def is_said(cluster: Clustered, text: str) -> bool:
    return any(text in f"{each['event']} {each.get('reason')}" for each in said(cluster))


async def test_three_brokers_talk_to_each_other_and_to_clients_over_tls(
    pki: Pki, tmp_path: Path
) -> None:
    settings = {**ENCRYPTED, **pki.broker("required")}
    async with (
        cluster_of(tmp_path, 3, settings) as cluster,
        client_of(cluster, context_of(pki, "alice")) as client,
    ):
        await eventually(lambda: all(len(b.nodes("")) == 3 for b in cluster.brokers.values()))
        await create(client, "t", 3)
        await eventually(lambda: all(b.topics.get("t") for b in cluster.brokers.values()))
        await eventually(lambda: len(cluster.partition(1, "t").in_sync) == 3)
        await produce(client, "t", cluster.leader("t"), b"x" * 300_000)
        leader = cluster.brokers[cluster.leader("t")]
        names = {each.principal.name.partition(",")[0] for each in leader.connections}
        assert names == {"CN=server", "CN=alice"}  # its followers, and the client


@pytest.mark.parametrize(
    ("user", "rules", "name"),
    [
        ("", "DEFAULT", "ANONYMOUS"),
        ("alice", "DEFAULT", "CN=alice,O=Barnabas development"),
        ("alice", "RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "ALICE"),
    ],
)
async def test_a_certificate_names_its_user(
    pki: Pki, tmp_path: Path, user: str, rules: str, name: str
) -> None:
    settings = {**ENCRYPTED, **pki.broker("requested"), "ssl.principal.mapping.rules": rules}
    async with (
        cluster_of(tmp_path, 1, settings) as cluster,
        client_of(cluster, context_of(pki, user)) as client,
    ):
        await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
        (connection,) = cluster.brokers[1].connections
        assert connection.principal == Principal("User", name)


async def test_who_has_no_certificate_or_no_rule_is_refused(pki: Pki, tmp_path: Path) -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=bob$/bob/"}
    settings = {**ENCRYPTED, **pki.broker("required"), **rules}
    async with cluster_of(tmp_path, 1, settings) as cluster:
        for user, reason in (("", "has no certificate"), ("alice", "no rule of ssl.principal")):
            async with client_of(cluster, context_of(pki, user)) as client:
                with pytest.raises(KafkaError):
                    await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
            await eventually(partial(is_said, cluster, reason))
        assert not cluster.brokers[1].connections


async def test_plain_text_and_tls_on_the_wrong_listener_are_distinguished(
    pki: Pki, tmp_path: Path
) -> None:
    settings = {"listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", **pki.broker()}
    async with cluster_of(tmp_path, 1, settings) as cluster:
        broker = cluster.brokers[1]
        encrypted, plain = (each.port for each in broker.listeners.addresses)
        reader, writer = await asyncio.open_connection("127.0.0.1", encrypted)
        writer.write(b"\0\0\0\x14\0\x12\0\0")
        assert await reader.read() == b""
        assert any("plain text on a TLS listener" in each for each in reasons(cluster))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(
                "127.0.0.1", plain, ssl=context_of(pki), server_hostname="localhost"
            )
        await eventually(
            lambda: any("TLS on a listener without TLS" in each for each in reasons(cluster))
        )
        writer.close()


async def test_a_handshake_that_never_ends_is_ended(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_listener, "HANDSHAKE_S_MAX", 0.3)
    async with cluster_of(tmp_path, 1, {**ENCRYPTED, **pki.broker()}) as cluster:
        broker = cluster.brokers[1]
        opened = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(20)]
        for number, (_, writer) in enumerate(opened):
            writer.write(b"\x16\x03\x01\x02\0"[: number % 6])  # as far as it comes, and no further
        for reader, _ in opened:
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), WAIT_S)
        await eventually(lambda: not broker.listeners._by_host)
        assert len([each for each in reasons(cluster) if "no complete TLS" in each]) == 20
        for _, writer in opened:
            writer.close()


async def test_clients_that_stop_in_the_middle_of_a_handshake_make_room_for_others(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_listener, "HANDSHAKES_MAX", 5)
    monkeypatch.setattr(tls_listener, "OWED_S_MAX", 0.1)
    context = context_of(pki)
    async with cluster_of(tmp_path, 1, {**ENCRYPTED, **pki.broker()}) as cluster:
        broker = cluster.brokers[1]
        opened = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(20)]
        for _, writer in opened:
            outgoing = ssl.MemoryBIO()
            client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
            writer.write(outgoing.read())
        await eventually(
            lambda: len([each for each in reasons(cluster) if "too many TLS" in each]) == 15
        )
        async with client_of(cluster, context) as honest:
            assert (await honest.ask(MetadataRequest(topics=[]), MetadataResponse, 9)).brokers
        for _, writer in opened:
            writer.close()


async def test_a_health_check_that_only_connects_is_not_worth_a_line(
    pki: Pki, tmp_path: Path
) -> None:
    async with cluster_of(tmp_path, 1, {**ENCRYPTED, **pki.broker()}) as cluster:
        broker = cluster.brokers[1]
        before = broker.counts.connections_accepted
        _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.close()
        await eventually(lambda: broker.counts.connections_accepted == before + 1)
        await eventually(lambda: not broker.listeners._by_host)
        assert not reasons(cluster)


async def test_large_records_come_and_go_to_a_client_that_reads_slowly(
    pki: Pki, tmp_path: Path
) -> None:
    settings = {**ENCRYPTED, **pki.broker(), "message.max.bytes": "9000000"}
    async with (
        cluster_of(tmp_path, 1, settings) as cluster,
        client_of(cluster, context_of(pki)) as client,
    ):
        await create(client, "t", 1)
        value = bytes(range(256)) * 20_000  # 5 MB
        await produce(client, "t", 1, value)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=10_000_000,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000_000)
                    ],
                )
            ],
            forgotten_topics_data=[],
        )
        for _ in range(3):
            answer = await client.ask(request, FetchResponse, 11)
            records = answer.responses[0].partitions[0].records
            assert records is not None
            assert value in bytes(records)  # type: ignore[arg-type]


async def test_a_certificate_is_replaced_while_connections_stay(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "LOOK_S", 0.05)
    store = tmp_path / "store.pem"
    store.write_bytes(Path(pki.path("server.pem")).read_bytes())
    settings = {**ENCRYPTED, **pki.broker(), "ssl.keystore.location": str(store)}
    async with (
        cluster_of(tmp_path, 1, settings) as cluster,
        client_of(cluster, context_of(pki)) as client,
    ):
        broker = cluster.brokers[1]

        async def served() -> bytes:
            _, writer = await asyncio.open_connection(
                "127.0.0.1", broker.port, ssl=context_of(pki), server_hostname="localhost"
            )
            found: bytes = writer.get_extra_info("ssl_object").getpeercert(True)
            writer.close()
            return found

        asked = MetadataRequest(topics=[])
        await client.ask(asked, MetadataResponse, 12)
        before = await served()
        renewed = Pki(tmp_path / "renewed")
        renewed.directory.mkdir()
        for name in ("ca.pem", "ca-key.pem"):
            (renewed.directory / name).write_bytes(Path(pki.path(name)).read_bytes())
        # The same names again, with another key.
        fresh = renewed.server("server")
        replace(store, fresh)
        await eventually(partial(is_said, cluster, "certificates replaced"))
        assert await served() != before
        await client.ask(asked, MetadataResponse, 12)  # the old connection goes on
        after = await served()
        for name, hosts, option in (
            ("other", (), "ssl.allow.dn.changes"),
            ("again", ("elsewhere",), "ssl.allow"),
        ):
            replace(store, renewed.server(name, *hosts))
            await eventually(partial(is_said, cluster, option))
            assert await served() == after
        store.write_text("garbage")
        await eventually(partial(is_said, cluster, "no certificate"))
        assert await served() == after


def replace(store: Path, by: str) -> None:
    """As tools do it: a new file under the name."""
    new = store.with_suffix(".new")
    new.write_bytes(Path(by).read_bytes())
    new.replace(store)


async def test_a_certificate_that_ends_soon_is_warned_of(pki: Pki, tmp_path: Path) -> None:
    settings = {
        **ENCRYPTED,
        **pki.broker(),
        "ssl.keystore.location": pki.server("short", days=10),
    }
    async with cluster_of(tmp_path, 1, settings) as cluster:
        (warned,) = (each for each in said(cluster) if each["event"] == "certificate expires soon")
        assert warned["days_left"] in (9, 10)


async def test_brokers_that_do_not_trust_their_own_certificate_do_not_start(
    pki: Pki, tmp_path: Path
) -> None:
    other = new_pki(tmp_path / "other")
    settings = {**ENCRYPTED, **pki.broker(), "ssl.truststore.location": other.path("ca.pem")}
    with pytest.raises(KafkaError, match="brokers could not connect to each other") as refused:
        async with cluster_of(tmp_path, 1, settings):
            pass
    assert refused.value.code is Code.INVALID_CONFIG


async def test_a_broker_of_another_name_is_not_believed(pki: Pki, tmp_path: Path) -> None:
    settings = {
        **ENCRYPTED,
        **pki.broker(),
        "ssl.keystore.location": pki.server("elsewhere", "elsewhere.example"),
    }
    async with (
        cluster_of(tmp_path, 1, settings) as cluster,
        client_of(cluster, context_of(pki)) as client,
    ):
        with pytest.raises(KafkaError, match="IP address mismatch"):
            await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)


@pytest.mark.parametrize("seed", range(3))
async def test_damaged_records_end_their_connection_and_no_other(
    pki: Pki, tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    async with (
        cluster_of(tmp_path, 1, {**ENCRYPTED, **pki.broker()}) as cluster,
        client_of(cluster, context_of(pki)) as client,
    ):
        broker = cluster.brokers[1]
        hello = _client_hello(pki)
        await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
        for _ in range(60):
            data = bytearray(hello)
            for _ in range(rng.randrange(6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            data = data[: rng.randrange(1, len(data) + 1)] + rng.randbytes(rng.randrange(300))
            _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(bytes(data))
            with suppress(ConnectionError):
                await writer.drain()
            writer.close()
        await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
        await eventually(lambda: broker.listeners._handshaking == 0)
        assert broker.counts.failures == 0


def _client_hello(pki: Pki) -> bytes:
    out = ssl.MemoryBIO()
    client = context_of(pki).wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


async def test_no_request_is_lost_while_certificates_are_replaced(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New connections all the time, and one that stays, while the file changes ten times."""
    monkeypatch.setattr(certificates, "LOOK_S", 0.02)
    store = tmp_path / "store.pem"
    store.write_bytes(Path(pki.path("server.pem")).read_bytes())
    settings = {**ENCRYPTED, **pki.broker(), "ssl.keystore.location": str(store)}
    async with cluster_of(tmp_path, 1, settings) as cluster:
        asked = 0
        over = asyncio.Event()

        async def ask(reconnect: bool) -> None:
            nonlocal asked
            client = EncryptedClient(context_of(pki), cluster.brokers[1])
            while not over.is_set():
                await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
                asked += 1
                if reconnect:
                    client.close()
                    client = EncryptedClient(context_of(pki), cluster.brokers[1])
            client.close()

        asking = [asyncio.create_task(ask(reconnect)) for reconnect in (True, True, False)]
        for number in range(10):
            renewed = Pki(tmp_path / f"renewed-{number}")
            renewed.directory.mkdir()
            for name in ("ca.pem", "ca-key.pem"):
                (renewed.directory / name).write_bytes(Path(pki.path(name)).read_bytes())
            replace(store, renewed.server("server"))
            await eventually(lambda number=number: _replaced(cluster) == number + 1)  # type: ignore[misc]
        over.set()
        await asyncio.gather(*asking)  # none has failed
        assert asked > 10


def _replaced(cluster: Clustered) -> int:
    return sum(each["event"] == "certificates replaced" for each in said(cluster))


async def test_a_connection_whose_keys_are_used_up_is_replaced(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        cluster_of(tmp_path, 1, {**ENCRYPTED, **pki.broker()}) as cluster,
        client_of(cluster, context_of(pki)) as client,
    ):
        request = MetadataRequest(topics=[])
        await client.ask(request, MetadataResponse, 12)
        monkeypatch.setattr(stream, "KEY_BYTES_MAX", 10)
        with pytest.raises(KafkaError, match="its TLS keys are used up"):
            await client.ask(request, MetadataResponse, 12)
        monkeypatch.undo()
        await client.ask(request, MetadataResponse, 12)
        assert cluster.brokers[1].counts.connections_accepted == 2


async def test_a_version_that_is_too_old_is_refused(pki: Pki, tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1, {**ENCRYPTED, **pki.broker()}) as cluster:
        old = context_of(pki)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(
                *("127.0.0.1", cluster.brokers[1].port), ssl=old, server_hostname="localhost"
            )
        await eventually(partial(is_said, cluster, "versions of TLS have none in common"))


async def test_a_certificate_that_has_ended_or_is_of_another_authority_is_refused(
    pki: Pki, tmp_path: Path
) -> None:
    pki.user("late", days=0)
    stranger = new_pki(tmp_path / "strangers", "mallory")
    keys = read_key_store(stranger.path("mallory.pem"), None, None, None, None)
    foreign = client_context(keys, read_trust_store(pki.path("ca.pem"), None, None))
    late = read_key_store(pki.path("late.pem"), None, None, None, None)
    assert late is not None
    ends = read_certificate(late.own).not_after
    await eventually(lambda: time.time() > ends + 1)
    settings = {**ENCRYPTED, **pki.broker("required")}
    async with cluster_of(tmp_path, 1, settings) as cluster:
        for context, reason in (
            (context_of(pki, "late"), "certificate has expired"),
            (foreign, "self-signed certificate in certificate chain"),
        ):
            async with client_of(cluster, context) as client:
                with pytest.raises(KafkaError):
                    await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
            await eventually(partial(is_said, cluster, reason))


async def test_connections_that_ended_leave_nothing_to_the_garbage_collector(
    pki: Pki, tmp_path: Path
) -> None:
    """A broker collects rarely: what a cycle keeps of a connection would be kept for long."""
    settings = {**ENCRYPTED, **pki.broker("required")}
    async with cluster_of(tmp_path, 1, settings) as cluster:
        gc.collect()
        gc.disable()
        try:
            for user in ("alice", "", "alice", ""):
                async with client_of(cluster, context_of(pki, user)) as client:
                    with suppress(KafkaError):
                        await client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
            _, writer = await asyncio.open_connection("127.0.0.1", cluster.brokers[1].port)
            writer.write(b"\x16\x03\x01\0\x05hello")
            writer.close()
            await eventually(lambda: not _accepted_and_kept())
        finally:
            gc.enable()


def _accepted_and_kept() -> list[TlsRecords]:
    found = [each for each in gc.get_objects() if isinstance(each, TlsRecords)]
    return [each for each in found if each.tls.server_side]
