"""How soon others lead when a broker is killed, by frames on the wire: no client's own backoff.

In: which sides, a place. Out: tables: a thousand partitions beside Kafka's, ten thousand of ours.
Always: every partition that the dead broker led is written to with acks=all until it takes a
record; what is told is when the first did and when the last.
"""

import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.metadata import MetadataResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from bench.figures import Goal, Row, Table
from bench.sides import BARNABAS, KAFKA, directory
from bench.suite import say
from tests.peers.kafka import running_kafka_cluster
from tests.process import ClusterProcess, children
from tests.raw import RawClient, batch_of

BROKERS = 3
PARTITIONS = 1_000
MANY = 10_000
TOPICS = 10  # that they are spread over
KILLS, KILLS_QUICK = 5, 2
SESSION_MS = 3_000
WAIT_S = 120.0
LAST_MS = Goal(most=500)
_PRODUCE = 9

Address = tuple[str, int]
Place = tuple[str, int]


@dataclass
class Running:
    """Three brokers of one kind, by their numbers."""

    name: str
    processes: dict[int, int]

    def __post_init__(self) -> None:
        self.addresses: dict[int, Address] = {}

    def look(self, through: Address) -> MetadataResponse:
        with RawClient(*through, timeout_s=WAIT_S) as client:
            answer = client.metadata()
        self.addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return answer


@contextmanager
def running(name: str, home: Path, options: dict[str, str]) -> Iterator[tuple[Running, Address]]:
    """Kafka's nodes stay dead when they are killed; ours come back when told to."""
    home.mkdir(parents=True, exist_ok=True)
    if name == KAFKA:
        more = {
            "broker.session.timeout.ms": str(SESSION_MS),
            "broker.heartbeat.interval.ms": "500",
            **options,
        }
        with running_kafka_cluster(home, BROKERS, more) as nodes:
            made = Running(name, {number: node.pid for number, node in enumerate(nodes, 1)})
            yield made, ("127.0.0.1", nodes[0].port)
        return
    ours = ClusterProcess(BROKERS, home / "data", options, log=home / "log")
    ours.start()
    try:
        yield Running(name, by_number(ours)), (ours.host, ours.port)
    finally:
        if ours.is_running():
            ours.stop()


def by_number(cluster: ClusterProcess) -> dict[int, int]:
    """Processes by the broker they are, from their command lines."""
    found = {}
    for pid in children(cluster.pid):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        for word in words:
            if word.startswith("node.id="):
                found[int(word.removeprefix("node.id="))] = pid
    return found


def create(address: Address, name: str, partitions: int) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=BROKERS,
        assignments=[],
        configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    with RawClient(*address, timeout_s=WAIT_S) as client:
        answer = client.call(request, 7, CreateTopicsResponse)
    if answer.topics[0].error_code:
        raise RuntimeError(f"topic {name} cannot be created: {answer.topics[0]}")


def led(answer: MetadataResponse, names: set[str]) -> dict[Place, int]:
    return {
        (topic.name or "", partition.partition_index): partition.leader_id
        for topic in answer.topics
        if topic.name in names
        for partition in topic.partitions
    }


def wait_whole(cluster: Running, address: Address, names: set[str], partitions: int) -> None:
    """Every replica in sync, every broker there."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        answer = cluster.look(address)
        ours = [
            partition
            for topic in answer.topics
            if topic.name in names
            for partition in topic.partitions
        ]
        level = [len(p.isr_nodes) == BROKERS and p.leader_id >= 0 for p in ours]
        if len(level) == partitions and all(level) and len(answer.brokers) == BROKERS:
            return
        time.sleep(0.2)
    raise TimeoutError(f"{cluster.name}: not all of {partitions} partitions are in sync")


def write_until_taken(
    cluster: Running, survivor: Address, places: set[Place], started: float
) -> list[float]:
    """Seconds since `started` until each has acknowledged a record, in that order."""
    left, taken = set(places), []
    record = bytes(batch_of(b"x" * 100))
    names = {topic for topic, _ in places}
    deadline = time.monotonic() + WAIT_S
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{cluster.name}: {len(left)} partitions take no records")
        leaders = led(cluster.look(survivor), names)
        by_leader: dict[int, list[Place]] = {}
        for place in left:
            if leaders.get(place, -1) in cluster.addresses:
                by_leader.setdefault(leaders[place], []).append(place)
        for leader, some in by_leader.items():
            with suppress(OSError), RawClient(*cluster.addresses[leader], timeout_s=5) as client:
                answer = client.call(_request(some, record), _PRODUCE, ProduceResponse)
                now = time.monotonic() - started
                for topic in answer.responses:
                    for each in topic.partition_responses:
                        if not each.error_code:
                            left.discard((topic.name, each.index))
                            taken.append(now)
        if left:
            time.sleep(0.002)
    return sorted(taken)


def _request(places: list[Place], record: bytes) -> ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic, partition in places:
        data = PartitionProduceData(index=partition, records=record)
        topics.setdefault(topic, []).append(data)
    return ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=t, partition_data=d) for t, d in topics.items()],
    )


def kill_and_measure(
    cluster: Running, address: Address, names: set[str], victim: int
) -> list[float]:
    """Seconds, by partition."""
    answer = cluster.look(address)
    places = {place for place, leader in led(answer, names).items() if leader == victim}
    survivor = next(a for number, a in cluster.addresses.items() if number != victim)
    if not places:
        raise RuntimeError(f"broker {victim} leads nothing")
    started = time.monotonic()
    os.kill(cluster.processes[victim], signal.SIGKILL)
    return write_until_taken(cluster, survivor, places, started)


def thousand_partitions(sides: tuple[str, ...], quick: bool) -> Table:
    """First and last partition, in milliseconds beyond the session timeout."""
    firsts: dict[str, list[float]] = {}
    lasts: dict[str, list[float]] = {}
    for name in sides:
        for number in range(KILLS_QUICK if quick else KILLS):
            say(f"failover of {PARTITIONS} partitions, {name}, {number + 1}")
            with directory("ram") as base, running(name, base / name, {}) as (cluster, address):
                create(address, "many", PARTITIONS)
                wait_whole(cluster, address, {"many"}, PARTITIONS)
                controller = cluster.look(address).controller_id
                others = [n for n in cluster.processes if n != controller]
                victim = controller if name == BARNABAS and number % 2 else others[0]
                beyond_s = SESSION_MS / 1000 if name == KAFKA else 0.0
                taken = kill_and_measure(cluster, address, {"many"}, victim)
                firsts.setdefault(name, []).append((taken[0] - beyond_s) * 1000)
                lasts.setdefault(name, []).append((taken[-1] - beyond_s) * 1000)
                say(f"  first {taken[0]:.3f} s, last {taken[-1]:.3f} s")
    rows = []
    for what, found, goal in (
        ("first partition takes records", firsts, None),
        ("last partition takes records", lasts, LAST_MS),
    ):
        ours, theirs = (
            statistics.median(found[side]) if side in found else None for side in (BARNABAS, KAFKA)
        )
        ratio = ours / theirs if ours is not None and theirs else None
        rows.append(Row(what, "ms", ours, theirs, ratio, goal, plain=True))
    return Table(f"One of three brokers killed, {PARTITIONS:,} partitions", rows)


class Steady:
    """A client that retries, as any does: one record after the other, none may fail."""

    def __init__(self, servers: str, names: list[str]) -> None:
        self.errors: list[KafkaError] = []
        self.sent = 0
        self._names = names
        self._producer = Producer(
            {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True,
             "linger.ms": 5, "log_level": 0}
        )  # fmt: skip

    def send(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            topic = self._names[self.sent % len(self._names)]
            self._producer.produce(topic, b"x" * 100, on_delivery=self._told)
            self.sent += 1
            self._producer.poll(0.005)

    def finish(self) -> None:
        self._producer.flush(WAIT_S)
        if len(self._producer):
            raise RuntimeError(f"{len(self._producer)} records neither taken nor refused")

    def _told(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.errors.append(error)


def many_partitions(quick: bool) -> Table:
    """Created, restarted and failed over; ours alone."""
    total = MANY // 10 if quick else MANY
    names = [f"many-{number}" for number in range(TOPICS)]
    seconds: dict[str, float] = {}
    with directory("ram") as base:
        home = base / "many"
        home.mkdir()
        ours = ClusterProcess(BROKERS, home / "data", log=home / "log")
        ours.start()
        try:
            cluster, address = Running(BARNABAS, by_number(ours)), (ours.host, ours.port)
            say(f"{total} partitions in three brokers")
            started = time.monotonic()
            for name in names:
                create(address, name, total // TOPICS)
            wait_whole(cluster, address, set(names), total)
            seconds["created, all in sync"] = time.monotonic() - started
            client = Steady(ours.bootstrap_servers, names)
            client.send(1.0)
            taken = kill_and_measure(cluster, address, set(names), 3)
            seconds["killed with -9: the last of its partitions takes records"] = taken[-1]
            client.send(2.0)
            started = time.monotonic()
            wait_whole(cluster, address, set(names), total)
            seconds["then back by itself, all in sync"] = time.monotonic() - started
            client.send(1.0)
            client.finish()
            started = time.monotonic()
            ours.stop()
            seconds["all three stopped, one after the other"] = time.monotonic() - started
            started = time.monotonic()
            ours.start()
            cluster = Running(BARNABAS, by_number(ours))
            wait_whole(cluster, address, set(names), total)
            seconds["and started, all in sync"] = time.monotonic() - started
            after = Steady(ours.bootstrap_servers, names)
            after.send(1.0)
            after.finish()
        finally:
            if ours.is_running():
                ours.stop()
    rows = [Row(what, "s", value, None, None) for what, value in seconds.items()]
    errors = [*client.errors, *after.errors]
    for error in errors[:3]:
        say(f"  {error}")
    rows.append(Row("records of a client that retries, refused", "records", float(len(errors)),
                    None, None, Goal(most=0), plain=True))  # fmt: skip
    rows.append(Row("and taken", "records", float(client.sent + after.sent), None, None))
    return Table(f"{total:,} partitions in three brokers", rows)
