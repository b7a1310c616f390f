"""Transactions of real processes while their brokers die: each record is copied once, in order."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import barnabas.sync
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.members import Cluster, running_cluster
from tests.raw import RawClient
from tests.support.cache import ROOT
from tests.waiting import until

PARTITIONS = 2
RECORDS = 400
GROUP, TRANSACTION = 0, 1
PROGRAM = "tests.client_e2e.transaction_program"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    options = {
        "transaction.state.log.num.partitions": "3",
        "group.min.session.timeout.ms": "1000",
    }
    with running_cluster(tmp_path_factory.mktemp("cluster"), options=options) as running:
        yield running
        for member in running.members.values():
            member.check_log()


class Copier:
    """Copies a topic in transactions; started again whenever it ends."""

    def __init__(self, servers: str, topic: str, protocol: int, said: Path) -> None:
        self.source, self.target = topic, f"{topic}-copy"
        self.servers = servers
        self.transactional_id = topic
        self.group = f"{topic}-group"
        self.written = 0
        self.starts = 0
        self._command = [
            *(sys.executable, "-m", PROGRAM, servers, self.source, self.target, topic),
            *("awaiting", str(protocol)),
        ]
        self._said = said
        self._process: subprocess.Popen[bytes] | None = None

    def copied(self) -> list[list[bytes]]:
        """By partition, in order; only what is committed."""
        if self._process is None or self._process.poll() is not None:
            with open(self._said, "ab") as said:
                self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=said, stderr=said)
            self.starts += 1
        return self.read(self.target)

    def read(self, topic: str) -> list[list[bytes]]:
        partitions = [(topic, number) for number in range(PARTITIONS)]
        found: list[list[bytes]] = [[] for _ in partitions]
        with barnabas.sync.PartitionConsumer(
            partitions, bootstrap_servers=self.servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.stop_at(consumer.end_offsets())
            for message in consumer:
                found[message.partition].append(message.value or b"")
        return found

    def write(self, count: int) -> None:
        with barnabas.sync.Producer(bootstrap_servers=self.servers) as producer:
            for _ in range(count):
                value = b"%06d" % self.written
                producer.send_nowait(self.source, value, partition=self.written % PARTITIONS)
                self.written += 1

    def wait_copied(self, count: int) -> None:
        until(
            lambda: sum(map(len, self.copied())) >= count,
            lambda: self._said.read_text()[-3000:],
        )

    def wait_all(self) -> None:
        expected = [
            [b"%06d" % number for number in range(self.written) if number % PARTITIONS == index]
            for index in range(PARTITIONS)
        ]
        self.wait_copied(self.written)
        assert self.copied() == expected

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def copying(cluster: Cluster, topic: str, protocol: int, said: Path) -> Iterator[Copier]:
    copier = Copier(cluster.bootstrap_servers, topic, protocol, said)
    with barnabas.sync.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for name in (copier.source, copier.target):
            admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    try:
        yield copier
    finally:
        copier.kill()


def coordinator(cluster: Cluster, key_type: int, key: str) -> int:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    member = next(each for each in cluster.members.values() if each.is_running())
    with RawClient("127.0.0.1", member.listen) as client:
        (found,) = client.call(request, 4, FindCoordinatorResponse).coordinators
    return found.node_id


def victim(cluster: Cluster, copier: Copier, role: str) -> int:
    if role == "coordinator":
        return coordinator(cluster, TRANSACTION, copier.transactional_id)
    if role == "group coordinator":
        return coordinator(cluster, GROUP, copier.group)
    return cluster.states()[copier.target, 0].leader


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("protocol", [1, 2], ids=["protocol 1", "protocol 2"])
def test_records_are_copied_once_while_brokers_die(
    cluster: Cluster, topic: str, tmp_path: Path, protocol: int, how: str
) -> None:
    with copying(cluster, topic, protocol, tmp_path / "said") as copier:
        for role in ("coordinator", "leader", "group coordinator", "coordinator"):
            before = copier.written
            copier.write(RECORDS)
            copier.wait_copied(before + RECORDS // 10)
            number = victim(cluster, copier, role)
            member = cluster.members[number]
            if how == "killed":
                member.kill()
            else:
                assert member.stop() == 0
            copier.wait_copied(before + RECORDS // 2)
            member.start()
            cluster.wait_whole()
        copier.wait_all()
