"""Certificates, rules, quotas and passwords change on a running cluster; no request is lost."""

import itertools
import socket
import ssl
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pytest

import barnabas.sync
from barnabas.client.admin.security import Acl, AclFilter
from barnabas.model.errors import Code, KafkaError
from tests.compat.sasl_brokers import PASSWORD, USER, SaslProcess, sasl_brokers
from tests.support.certificates import Pki, new_pki
from tests.waiting import WAIT_S, until

ck: Any = import_module("confluent_kafka")

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER}",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}
MORE = 20  # records of each client, while and after something has changed
PAUSE_S = 0.01


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return new_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def broker(pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProcess]:
    directory = tmp_path_factory.mktemp("changes")
    with sasl_brokers(directory, 3, {**pki.broker(), **OPTIONS}, "SASL_SSL") as process:
        yield process
        process.check_log()
        assert "canary" not in process.log


def settings(
    broker: SaslProcess, pki: Pki, user: str = USER, password: str = PASSWORD
) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": pki.path("ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
    }


class Writer(Protocol):
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Returns when the record is committed."""
        ...

    def close(self) -> None: ...


class OurWriter:
    def __init__(self, config: dict[str, str]) -> None:
        self._producer = barnabas.sync.Producer(config)
        self._producer.__enter__()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition)

    def close(self) -> None:
        self._producer.close()


class LibrdkafkaWriter:
    def __init__(self, config: dict[str, str]) -> None:
        self._problems: list[Any] = []
        self._producer = ck.Producer(
            {**config, "enable.idempotence": True, "error_cb": self._problems.append}
        )

    def send(self, topic: str, partition: int, value: bytes) -> None:
        def delivered(error: Any, _: object) -> None:
            if error is not None:
                self._problems.append(error)

        self._producer.produce(topic, value, partition=partition, on_delivery=delivered)
        assert self._producer.flush(WAIT_S) == 0
        assert not self._problems, self._problems

    def close(self) -> None:
        self._producer.flush(WAIT_S)


class Clients:
    """A writer and a group's consumer of each kind, each on a thread, until they are closed."""

    def __init__(self, config: dict[str, str], topic: str) -> None:
        self._config = config
        self._topic = topic
        self._ended = threading.Event()
        self.written: dict[str, list[bytes]] = {"ours": [], "librdkafka": []}
        self.read: dict[str, list[bytes]] = {"ours": [], "librdkafka": []}
        self.problems: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,))
            for work in (
                lambda: self._write("ours", OurWriter(config)),
                lambda: self._write("librdkafka", LibrdkafkaWriter(config)),
                self._read_ours,
                self._read_librdkafka,
            )
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.go_on()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except BaseException as problem:  # the test asks for it
            self.problems.append(problem)

    def _write(self, name: str, writer: Writer) -> None:
        for number in itertools.count():
            if self._ended.wait(PAUSE_S):
                break
            value = f"{name} {number}".encode()
            writer.send(self._topic, number % 3, value)
            self.written[name].append(value)
        writer.close()

    def _all_read(self, name: str) -> bool:
        """Its records come until the writers have ended, and all of theirs are read."""
        written = sum(map(len, self.written.values()))
        writers = self._threads[:2]
        return not any(each.is_alive() for each in writers) and len(self.read[name]) >= written

    def _read_ours(self) -> None:
        more = {"group.id": "ours", "auto.offset.reset": "earliest"}
        with barnabas.sync.Consumer(self._topic, {**self._config, **more}) as consumer:
            while not self._all_read("ours") and not self.problems:
                self.read["ours"] += [each.value or b"" for each in consumer.getmany(100, 0.1)]

    def _read_librdkafka(self) -> None:
        problems: list[Any] = []
        more = {"group.id": "librdkafka", "auto.offset.reset": "earliest"}
        consumer = ck.Consumer({**self._config, **more, "error_cb": problems.append})
        consumer.subscribe([self._topic])
        while not self._all_read("librdkafka") and not self.problems:
            for message in consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                self.read["librdkafka"].append(message.value())
            assert not problems, problems
        consumer.close()

    def go_on(self) -> None:
        """Until every client has done more."""
        before = [len(each) for each in (*self.written.values(), *self.read.values())]

        def gone_on() -> bool:
            assert not self.problems, self.problems
            now = [len(each) for each in (*self.written.values(), *self.read.values())]
            return all(b - a >= MORE for a, b in zip(before, now, strict=True))

        until(gone_on, lambda: (self.problems, before))

    def check(self) -> None:
        assert not self.problems, self.problems
        written = sorted(itertools.chain(*self.written.values()))
        for name, values in self.read.items():
            assert sorted(values) == written, name


def served_certificate(pki: Pki, port: int) -> str:
    context = ssl.create_default_context(cafile=pki.path("ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        found: dict[str, Any] = encrypted.getpeercert() or {}
        return str(found["serialNumber"])


def replace_certificate(pki: Pki) -> None:
    """By one of the same names, as docs/SECURITY.md says: renamed over the old one."""
    old, new = Path(pki.path("server.pem")), Path(pki.path("server.pem.new"))
    kept = old.with_suffix(".old")
    old.rename(kept)
    Path(pki.path("server.p12")).unlink()
    try:
        Path(pki.server("server")).rename(new)
    finally:
        kept.rename(old)
    new.rename(old)


def may_log_in(config: dict[str, str]) -> bool:
    try:
        with barnabas.sync.Admin(config) as admin:
            admin.topics()
    except KafkaError as problem:
        if "login as 'carol' failed" not in str(problem):
            raise
        return False
    return True


def may_write(producer: barnabas.sync.Producer, topic: str) -> bool:
    try:
        producer.send(topic, b"value", partition=0)
    except KafkaError as problem:
        if problem.code != Code.TOPIC_AUTHORIZATION_FAILED:
            raise
        return False
    return True


def change_certificates(broker: SaslProcess, pki: Pki) -> None:
    ports = range(broker.port, broker.port + 3)
    before = {port: served_certificate(pki, port) for port in ports}
    assert len(set(before.values())) == 1
    replace_certificate(pki)
    until(lambda: all(served_certificate(pki, port) != before[port] for port in ports))


def change_rules(admin: barnabas.sync.Admin, dave: dict[str, str], topic: str) -> None:
    """Those of another user, and many that concern nobody."""
    other = f"{topic}-of-dave"
    admin.create_topic(other, partitions=1)
    rule = Acl("topic", other, "User:dave", "write")
    with barnabas.sync.Producer(dave) as producer:
        for _ in range(3):
            assert not may_write(producer, other)
            admin.create_acls([rule])
            until(lambda: may_write(producer, other))
            many = [Acl("topic", f"{topic}-{n}", "User:nobody", "read") for n in range(100)]
            admin.create_acls(many)
            admin.delete_acls(AclFilter("topic", None, "User:nobody", "read"))
            admin.delete_acls(AclFilter("topic", other, "User:dave", "write"))
            until(lambda: not may_write(producer, other))


def change_quotas(admin: barnabas.sync.Admin, clients: "Clients") -> None:
    """Of these clients: so small that they wait, then large, then none."""
    for limit in (8_000.0, 1e9, None):
        limits = {"producer_byte_rate": limit, "consumer_byte_rate": limit}
        admin.alter_quota({"user": "carol"}, limits)
        clients.go_on()


def test_clients_go_on_while_certificates_rules_quotas_and_passwords_change(
    broker: SaslProcess, pki: Pki, topic: str
) -> None:
    with barnabas.sync.Admin(settings(broker, pki)) as admin:
        admin.create_topic(topic, partitions=3)
        admin.set_password("carol", "first")
        admin.set_password("dave", "daves")
        rules = [Acl("topic", topic, "User:carol", each) for each in ("read", "write")]
        groups = [Acl("group", each, "User:carol", "read") for each in ("ours", "librdkafka")]
        admin.create_acls([*rules, *groups])
        carol = settings(broker, pki, "carol", "first")
        with barnabas.sync.Admin(carol) as checked:
            until(lambda: topic in checked.topics().topics)
        servers = broker.bootstrap_servers.split(",")
        with Clients(carol, topic) as clients:
            change_certificates(broker, pki)
            clients.go_on()
            change_rules(admin, settings(broker, pki, "dave", "daves"), topic)
            clients.go_on()
            change_quotas(admin, clients)
            admin.set_password("carol", "second")
            for server in servers:
                assert may_log_in({**carol, "bootstrap.servers": server, "sasl.password": "second"})
                assert not may_log_in({**carol, "bootstrap.servers": server})
            clients.go_on()
        clients.check()
