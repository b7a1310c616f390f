"""How soon others lead when a broker is killed, by frames on the wire: no client's own backoff.

In: which sides. Out: a table: a thousand partitions, beside Kafka's.
Always: every partition that the dead broker led is written to with acks=all until it takes a
record; what is told is when the first did and when the last.
"""

import os
import signal
import statistics
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

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
from tests.cluster.many import Address, Place, create, in_sync, leaders, look, numbered
from tests.process import ClusterProcess
from tests.raw import RawClient, batch_of
from tests.support.kafka import running_kafka_cluster

BROKERS = 3
PARTITIONS = 1_000
TOPIC = "many"
KILLS, KILLS_QUICK = 5, 2
SESSION_MS = 3_000
WAIT_S = 120.0
LOOK_S = 0.01
PROBE = b"probe 0 " + b"x" * 100  # as a record of tests.cluster.load, to whoever reads along
WHOLE_LOOK_S = 0.1
PRODUCE_MS_MAX = 10_000
LAST_MS = Goal(most=500)
_PRODUCE = 9


@dataclass
class Running:
    """Three brokers of one kind: their processes and addresses, by their numbers."""

    name: str
    processes: dict[int, int]
    addresses: dict[int, Address] = field(default_factory=dict)

    def look(self, through: Address, names: set[str]) -> MetadataResponse:
        answer = look(through, names)
        self.addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return answer


@contextmanager
def running(name: str, home: Path) -> Iterator[tuple[Running, Address]]:
    """Kafka's nodes stay dead when they are killed; ours come back by themselves."""
    home.mkdir(parents=True, exist_ok=True)
    if name == KAFKA:
        options = {
            "broker.session.timeout.ms": str(SESSION_MS),
            "broker.heartbeat.interval.ms": "500",
        }
        with running_kafka_cluster(home, BROKERS, options) as nodes:
            made = Running(name, {number: node.pid for number, node in enumerate(nodes, 1)})
            yield made, ("127.0.0.1", nodes[0].port)
        return
    ours = ClusterProcess(BROKERS, home / "data", log=home / "log")
    ours.start()
    try:
        yield Running(name, numbered(ours)), (ours.host, ours.port)
    finally:
        if ours.is_running():
            ours.stop()


def write_until_taken(
    cluster: Running, survivor: Address, places: set[Place], started: float
) -> list[float]:
    """Seconds since `started` until each has acknowledged a record, in that order."""
    left, taken = set(places), []
    record = bytes(batch_of(PROBE))
    deadline = time.monotonic() + WAIT_S
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{cluster.name}: {len(left)} partitions take no records")
        led = leaders(cluster.look(survivor, {topic for topic, _ in left}))
        by_leader: dict[int, list[Place]] = {}
        for place in left:
            if led.get(place, -1) in cluster.addresses:
                by_leader.setdefault(led[place], []).append(place)
        for answered_at, answer in _write(cluster, by_leader, record):
            for topic in answer.responses:
                for each in topic.partition_responses:
                    if not each.error_code:
                        left.discard((topic.name, each.index))
                        taken.append(answered_at - started)
        if left:
            time.sleep(LOOK_S)  # who asks without a pause takes the brokers' time
    return sorted(taken)


def _write(
    cluster: Running, by_leader: dict[int, list[Place]], record: bytes
) -> list[tuple[float, ProduceResponse]]:
    """A request to each leader, all at once; the answers of those that are there."""

    def write(leader: int, some: list[Place]) -> tuple[float, ProduceResponse] | None:
        with suppress(OSError), RawClient(*cluster.addresses[leader]) as client:
            answer = client.call(_request(some, record), _PRODUCE, ProduceResponse)
            return time.monotonic(), answer
        return None

    with ThreadPoolExecutor(BROKERS) as at_once:
        answers = list(at_once.map(lambda each: write(*each), by_leader.items()))
    return [answer for answer in answers if answer is not None]


def _request(places: list[Place], record: bytes) -> ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic, partition in places:
        data = PartitionProduceData(index=partition, records=record)
        topics.setdefault(topic, []).append(data)
    return ProduceRequest(
        acks=-1,
        timeout_ms=PRODUCE_MS_MAX,
        topic_data=[TopicProduceData(name=t, partition_data=d) for t, d in topics.items()],
    )


def kill_and_measure(
    cluster: Running, address: Address, names: set[str], victim: int
) -> list[float]:
    """Seconds, by partition."""
    led = leaders(cluster.look(address, names))
    places = {place for place, leader in led.items() if leader == victim}
    survivor = next(a for number, a in cluster.addresses.items() if number != victim)
    if not places:
        raise RuntimeError(f"broker {victim} leads nothing")
    started = time.monotonic()
    os.kill(cluster.processes[victim], signal.SIGKILL)
    return write_until_taken(cluster, survivor, places, started)


def wait_whole(address: Address, names: Collection[str], partitions: int) -> None:
    """Every replica in sync, every broker there. One topic after the other: to ask for ten
    thousand partitions again and again would take the brokers' time."""
    deadline = time.monotonic() + WAIT_S
    each = partitions // len(names)
    for name in names:
        while (found := in_sync(address, [name], BROKERS)) < each:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found} of {each} partitions of {name} are in sync")
            time.sleep(WHOLE_LOOK_S)


def thousand_partitions(sides: tuple[str, ...], quick: bool) -> Table:
    """First and last partition, in milliseconds beyond the session timeout."""
    firsts: dict[str, list[float]] = {}
    lasts: dict[str, list[float]] = {}
    for name in sides:
        for number in range(KILLS_QUICK if quick else KILLS):
            say(f"failover of {PARTITIONS} partitions, {name}, {number + 1}")
            with directory("ram") as base, running(name, base / name) as (cluster, address):
                create(address, TOPIC, PARTITIONS)
                wait_whole(address, {TOPIC}, PARTITIONS)
                controller = cluster.look(address, {TOPIC}).controller_id
                others = [n for n in cluster.processes if n != controller]
                victim = controller if name == BARNABAS and number % 2 else others[0]
                beyond_s = SESSION_MS / 1000 if name == KAFKA else 0.0
                taken = kill_and_measure(cluster, address, {TOPIC}, victim)
                firsts.setdefault(name, []).append((taken[0] - beyond_s) * 1000)
                lasts.setdefault(name, []).append((taken[-1] - beyond_s) * 1000)
                who = "the controller" if victim == controller else "another"
                say(f"  {who} killed: first {taken[0]:.3f} s, last {taken[-1]:.3f} s")
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
