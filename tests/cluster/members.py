"""A cluster of broker processes behind doors, on one keeper: started, hurt, healed, looked at.

In: a directory, a number of brokers, a keeper. Out: who leads what, and whether all is well again.
Always: brokers and clients come through the doors, the test itself does not.
"""

import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from barnabas.model.errors import Code
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.metadata import MetadataResponse
from tests.cluster.checker import Place
from tests.cluster.proxy import Network
from tests.ports import free_ports_from
from tests.process import BrokerProcess
from tests.raw import RawClient
from tests.support.zookeeper import Zookeeper
from tests.waiting import until

# A broker that starves for seconds keeps its session, and its place in the in-sync sets.
SESSION_MS = 5_000
LAG_MS = 4_000
SETTLED_S = 1.5 * LAG_MS / 1000  # longer than LAG_MS, and the pace at which leaders look
ASKED_S = 30.0  # then another broker is asked
ZOOKEEPER = "zookeeper"
OPTIONS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "replica.fetch.wait.max.ms": "100",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "200000",
}
COMING = (Code.TOPIC_ALREADY_EXISTS, Code.NONE)


class State(NamedTuple):
    """One partition, as brokers tell it."""

    leader: int
    epoch: int
    replicas: list[int]
    in_sync: list[int]

    @property
    def whole(self) -> bool:
        return self.leader >= 0 and sorted(self.in_sync) == sorted(self.replicas)


class Member(BrokerProcess):
    """One broker: it listens on one port, and tells everybody else that of its door."""

    def __init__(
        self, number: int, home: Path, listen: int, door: int, options: Mapping[str, str]
    ) -> None:
        super().__init__(home / f"broker-{number}", options, log=home / f"broker-{number}.log")
        self.number = number
        self.listen = listen
        self._options |= {
            "node.id": str(number),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{door}",
        }

    def command(self) -> list[str]:
        self.port = self.listen
        return super().command()

    def signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def empty_disk(self) -> None:
        assert self.data is not None
        shutil.rmtree(self.data, ignore_errors=True)


class Cluster:
    """`zookeeper`: a running one, or the brokers share a file."""

    def __init__(
        self,
        home: Path,
        count: int,
        zookeeper: Zookeeper | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.network = Network()
        self.zookeeper = zookeeper
        self.members: dict[int, Member] = {}
        self._emptied = 0
        ports: list[int] = []
        for number in range(1, count + 1):
            listen = free_ports_from(1)
            door = self.network.door(f"broker-{number}", listen)
            ports.append(door.port)
            own = {**OPTIONS, **(options or {}), **self._keeper(number)}
            self.members[number] = Member(number, home, listen, door.port, own)
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in ports)

    def _keeper(self, number: int) -> dict[str, str]:
        if self.zookeeper is None:
            return {"keeper.file": str(self.home / "keeper.db")}
        name = f"broker-{number}"
        door = self.network.door(ZOOKEEPER, self.zookeeper.port, caller=name)
        return {"zookeeper.connect": f"127.0.0.1:{door.port}/{self.home.name}"}

    def start(self) -> None:
        with ThreadPoolExecutor(len(self.members)) as starting:
            list(starting.map(lambda member: member.start(), self.members.values()))

    def next_to_empty(self) -> int:
        """Each broker in turn."""
        self._emptied = self._emptied % len(self.members) + 1
        return self._emptied

    def stop(self) -> dict[int, int]:
        """One after the other, as a person would; the exit codes."""
        return {m.number: m.stop() for m in self.members.values() if m.is_running()}

    def abandon(self) -> None:
        for member in self.members.values():
            if member.is_running():
                member.kill()
        self.network.close()

    def others(self, number: int) -> list[str]:
        return [f"broker-{other}" for other in self.members if other != number]

    # Looking

    def metadata(self) -> MetadataResponse:
        """As some broker that answers tells it."""
        problem: OSError | None = None
        for member in self.members.values():
            if not member.is_running():
                continue
            try:
                with RawClient("127.0.0.1", member.listen, timeout_s=ASKED_S) as client:
                    return client.metadata()
            except OSError as error:
                problem = error
        raise problem or ConnectionError("no broker runs")

    def controller(self) -> int:
        return self.metadata().controller_id

    def states(self) -> dict[Place, State]:
        return {
            (topic.name or "", partition.partition_index): State(
                partition.leader_id,
                partition.leader_epoch,
                list(partition.replica_nodes),
                list(partition.isr_nodes),
            )
            for topic in self.metadata().topics
            for partition in topic.partitions
        }

    def whole(self) -> bool:
        """Every broker runs and is known, every replica is in sync."""
        try:
            answer = self.metadata()
            states = self.states()
        except OSError:
            return False
        return len(answer.brokers) == len(self.members) and all(s.whole for s in states.values())

    def wait_whole(self) -> None:
        until(self.whole, lambda: f"not whole again: {self._diagnosis()}")

    def wait_settled(self) -> None:
        """Whole, and for so long that no leader is about to find a follower late."""
        since = time.monotonic()

        def settled() -> bool:
            nonlocal since
            if not self.whole():
                since = time.monotonic()
            return time.monotonic() - since > SETTLED_S

        until(settled, lambda: f"not settled: {self._diagnosis()}")

    def _diagnosis(self) -> str:
        try:
            answer = self.metadata()
            wrong = {place: state for place, state in self.states().items() if not state.whole}
        except OSError as problem:
            return repr(problem)
        there = [broker.node_id for broker in answer.brokers]
        return f"brokers {there}, controller {answer.controller_id}, not in sync {wrong}"

    def unlike(self, places: Sequence[Place]) -> dict[str, dict[int, int]]:
        """The sizes of replicas of which not all have the same bytes."""
        found = {}
        for topic, number in places:
            logs = {
                member.number: b"".join(
                    path.read_bytes()
                    for path in sorted((member.data or Path()).glob(f"{topic}-{number}/*.log"))
                )
                for member in self.members.values()
                if ((member.data or Path()) / f"{topic}-{number}").is_dir()
            }
            if len(set(logs.values())) != 1:
                found[f"{topic}-{number}"] = {broker: len(log) for broker, log in logs.items()}
        return found

    def create_topic(self, name: str, partitions: int, replicas: int = 3) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[],
            configs=[],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)

        def created() -> bool:
            for member in self.members.values():
                with suppress(OSError), RawClient("127.0.0.1", member.listen) as client:
                    answer = client.call(request, 7, CreateTopicsResponse)
                    if answer.topics[0].error_code in COMING:
                        return True
            return False

        until(created, f"topic {name} cannot be created")
        places = [(name, number) for number in range(partitions)]
        until(
            lambda: all(p in (s := self.states()) and s[p].whole for p in places),
            lambda: f"topic {name} is not whole: {self._diagnosis()}",
        )

    def leader_client(self, place: Place) -> RawClient:
        """On a starved machine all sessions may have expired since the cluster was whole."""
        leader = -1

        def found() -> bool:
            nonlocal leader
            leader = self.states()[place].leader
            return leader >= 0

        until(found, f"{place} has no leader")
        return RawClient("127.0.0.1", self.members[leader].listen)


@contextmanager
def running_cluster(
    home: Path,
    count: int = 3,
    *,
    zookeeper: Zookeeper | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    cluster = Cluster(home, count, zookeeper, options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.abandon()
