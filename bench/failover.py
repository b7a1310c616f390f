"""The failover time when a broker is killed, frozen, or hangs in a call: measured with frames on
the wire, without a client's backoff.

In: which sides. Out: tables: a thousand partitions, beside Kafka.
Always: the benchmark writes to every partition that the lost broker led, with acks=all, until it
accepts a record; the tables have the times of the first and the last partition.
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
PROBE = b"probe 0 " + b"x" * 100  # as a record of tests.cluster.load, for consumers that read along
WHOLE_LOOK_S = 0.1
PRODUCE_MS_MAX = 10_000
LAST_MS = Goal(most=500)
SESSION_LAST_MS = Goal(most=1_000)
_PRODUCE = 9

# A handler runs on the loop's thread; the others go on.
_HANGS_ON_A_SIGNAL = f"""
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: time.sleep({WAIT_S}))
"""


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
    """Restarts a killed node of Kafka; ours is restarted by its supervisor."""
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
    (home / "sitecustomize.py").write_text(_HANGS_ON_A_SIGNAL)
    session = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
    env = {"PYTHONPATH": str(home)}
    ours = ClusterProcess(BROKERS, home / "data", session, log=home / "log", env=env)
    ours.start()
    try:
        yield Running(name, numbered(ours)), (ours.host, ours.port)
    finally:
        if ours.is_running():
            ours.stop()


def write_until_taken(
    cluster: Running, survivor: Address, places: set[Place], silent: int | None, started: float
) -> list[float]:
    """The seconds from `started` until each partition has acknowledged a record, in that order.
    Nothing is sent to a silent broker, which would not even refuse it.
    """
    left, taken = set(places), []
    record = bytes(batch_of(PROBE))
    deadline = time.monotonic() + WAIT_S
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{cluster.name}: {len(left)} partitions accept no records")
        led = leaders(cluster.look(survivor, {topic for topic, _ in left}))
        by_leader: dict[int, list[Place]] = {}
        for place in left:
            leader = led.get(place, -1)
            if leader != silent and leader in cluster.addresses:
                by_leader.setdefault(leader, []).append(place)
        for answered_at, answer in _write(cluster, by_leader, record):
            for topic in answer.responses:
                for each in topic.partition_responses:
                    if not each.error_code:
                        left.discard((topic.name, each.index))
                        taken.append(answered_at - started)
        if left:
            time.sleep(LOOK_S)  # requests without a pause would use the brokers' CPU time
    return sorted(taken)


def _write(
    cluster: Running, by_leader: dict[int, list[Place]], record: bytes
) -> list[tuple[float, ProduceResponse]]:
    """Sends a request to each leader at the same time; returns the responses of those
    that answer.
    """

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


def signal_and_measure(
    cluster: Running,
    address: Address,
    names: set[str],
    victim: int,
    sent: signal.Signals = signal.SIGKILL,
) -> list[float]:
    """Seconds, by partition."""
    led = leaders(cluster.look(address, names))
    places = {place for place, leader in led.items() if leader == victim}
    survivor = next(a for number, a in cluster.addresses.items() if number != victim)
    if not places:
        raise RuntimeError(f"broker {victim} leads nothing")
    started = time.monotonic()
    os.kill(cluster.processes[victim], sent)
    silent = None if sent == signal.SIGKILL else victim
    return write_until_taken(cluster, survivor, places, silent, started)


def wait_whole(address: Address, names: Collection[str], partitions: int) -> None:
    """Waits until every replica is in sync and every broker is up. Checks one topic after the
    other: repeated requests for ten thousand partitions would use the brokers' CPU time.
    """
    deadline = time.monotonic() + WAIT_S
    each = partitions // len(names)
    for name in names:
        while (found := in_sync(address, [name], BROKERS)) < each:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found} of {each} partitions of {name} are in sync")
            time.sleep(WHOLE_LOOK_S)


@dataclass(frozen=True)
class Loss:
    """A way to lose a broker, and the sides that notice it only when its session has ended."""

    title: str
    signal: signal.Signals
    sides: tuple[str, ...]
    by_session: tuple[str, ...]
    last_ms: Goal

    def beyond_s(self, side: str) -> float:
        return SESSION_MS / 1000 if side in self.by_session else 0.0


BOTH = (BARNABAS, KAFKA)
LOSSES = (
    Loss("killed", signal.SIGKILL, BOTH, (KAFKA,), LAST_MS),
    Loss("frozen", signal.SIGSTOP, BOTH, BOTH, SESSION_LAST_MS),
    Loss("whose event loop hangs", signal.SIGUSR1, (BARNABAS,), BOTH, SESSION_LAST_MS),
)


def thousand_partitions(loss: Loss, sides: tuple[str, ...], quick: bool) -> Table:
    """First and last partition, in milliseconds, beyond the session timeout where that is due."""
    firsts: dict[str, list[float]] = {}
    lasts: dict[str, list[float]] = {}
    for name in sides:
        for number in range(KILLS_QUICK if quick else KILLS) if name in loss.sides else ():
            say(f"a broker {loss.title}, {PARTITIONS} partitions, {name}, {number + 1}")
            with directory("ram") as base, running(name, base / name) as (cluster, address):
                create(address, TOPIC, PARTITIONS)
                wait_whole(address, {TOPIC}, PARTITIONS)
                controller = cluster.look(address, {TOPIC}).controller_id
                others = [n for n in cluster.processes if n != controller]
                victim = controller if name == BARNABAS and number % 2 else others[0]
                taken = signal_and_measure(cluster, address, {TOPIC}, victim, loss.signal)
                if loss.signal != signal.SIGKILL:
                    os.kill(cluster.processes[victim], signal.SIGKILL)
                firsts.setdefault(name, []).append((taken[0] - loss.beyond_s(name)) * 1000)
                lasts.setdefault(name, []).append((taken[-1] - loss.beyond_s(name)) * 1000)
                who = "the controller" if victim == controller else "another"
                say(f"  {who}: first {taken[0]:.3f} s, last {taken[-1]:.3f} s")
    rows = []
    for what, found, goal in (
        ("first partition takes records", firsts, None),
        ("last partition takes records", lasts, loss.last_ms),
    ):
        ours, theirs = (
            statistics.median(found[side]) if side in found else None for side in (BARNABAS, KAFKA)
        )
        ratio = ours / theirs if ours is not None and theirs else None
        rows.append(Row(what, "ms", ours, theirs, ratio, goal, plain=True))
    return Table(f"One of three brokers {loss.title}, {PARTITIONS:,} partitions", rows)
