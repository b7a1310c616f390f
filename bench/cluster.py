"""The suite "cluster": three brokers beside three of Apache Kafka's, every partition on all three.

In: settings. Out: tables: producing with acks=all, the cost of all brokers together, the failover
time when one broker is killed; for Barnabas alone: ten thousand partitions, and several brokers
beside one.
Always: replication factor 3, min.insync.replicas=2, acks=all, the same clients for both sides.
"""

import statistics
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from bench import failover, librdkafka, many, proc
from bench.figures import CPU, P50, P99, RECORDS_PER_S, Goal, Ratios, Row, Sample, Samples, Table
from bench.sides import BARNABAS, DELETE_SOON, KAFKA, Side, directory
from bench.suite import PLACES, Pace, Settings, Suite, Workload, drive, rows_of, say
from tests.process import BrokerProcess, ClusterProcess, children
from tests.support.kafka import running_kafka_cluster

BROKERS = 3
DURABLE = {"min.insync.replicas": "2"}
MEMORY = "memory MB, all brokers"
SCALED = 4
SCALE_ROUNDS = 5
SESSION_MS = 3_000  # of Kafka; Barnabas on one machine does not wait for it


@dataclass
class ClusterSide(Side):
    """All brokers of one kind; `pid` is unused where there are several."""

    pids: tuple[int, ...] = ()

    def cpu_s(self) -> float:
        return sum(proc.cpu_s(pid) for pid in self.pids)

    def rss_mb(self) -> float:
        return sum(proc.rss_mb(pid) for pid in self.pids)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = NewTopic(name, partitions, BROKERS, config=DURABLE)
        self._admin.create_topics([topic])[name].result(120)

    def create_on(self, name: str, broker: int) -> None:
        """One partition, one replica, there."""
        topic = NewTopic(name, num_partitions=1, replica_assignment=[[broker]])
        self._admin.create_topics([topic])[name].result(60)


@contextmanager
def running_clusters(names: list[str], base: Path) -> Iterator[list[Side]]:
    with ExitStack() as up:
        sides: list[Side] = []
        for name in names:
            if name == KAFKA:
                nodes = up.enter_context(running_kafka_cluster(base / name, BROKERS, DELETE_SOON))
                servers = ",".join(node.bootstrap_servers for node in nodes)
                pids = tuple(node.pid for node in nodes)
            else:
                ours = up.enter_context(running_ours(base / name, BROKERS, DELETE_SOON))
                servers, pids = ours.bootstrap_servers, (ours.pid,)
            sides.append(ClusterSide(name, servers, pids[0], pids))
        yield sides


@contextmanager
def running_ours(
    home: Path, count: int, options: Mapping[str, str] | None = None
) -> Iterator[ClusterProcess]:
    home.mkdir(parents=True, exist_ok=True)
    ours = ClusterProcess(count, home / "data", options, log=home / "log")
    ours.start()
    try:
        yield ours
    finally:
        if ours.is_running():
            ours.stop()


# Records in


def _sample(side: Side, records: int, cpu_before: float, seconds: float) -> Sample:
    return {RECORDS_PER_S: records / seconds, CPU: (side.cpu_s() - cpu_before) / records * 1e6}


def _produce(label: str, records: int, record_bytes: int, options: Mapping[str, str]) -> Workload:
    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = max(100, int(records * scale))
        with side.topic() as topic:
            cpu = side.cpu_s()
            seconds = librdkafka.produce(
                side.bootstrap_servers, topic, count, record_bytes, {"acks": "all", **options}
            )
            yield {label: _sample(side, count, cpu, seconds)}

    return Workload(label.replace(" ", "-"), (label,), run)


def _synchronous(side: Side, scale: float) -> Iterator[Samples]:
    """Produces one record after the other, and waits for each."""
    count = max(100, int(1_500 * scale))
    producer = Producer(
        {"bootstrap.servers": side.bootstrap_servers, "acks": "all", "linger.ms": 0}
    )
    delivered: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        delivered.append(error)

    times_ms = []
    with side.topic() as topic:
        for number in range(-100, count):  # the first hundred connect and warm up
            delivered.clear()
            started = time.perf_counter()
            producer.produce(topic, bytes(100), partition=0, on_delivery=on_delivery)
            while not delivered:
                producer.poll(1)
            if delivered[0] is not None:
                raise RuntimeError(f"{side.name} did not accept a record: {delivered[0]}")
            if number >= 0:
                times_ms.append((time.perf_counter() - started) * 1e3)
    percentiles = statistics.quantiles(times_ms, n=100)
    yield {"synchronous produce": {P50: statistics.median(times_ms), P99: percentiles[98]}}


def _memory(side: Side, _scale: float) -> Iterator[Samples]:
    """The memory at the end of a round, after the other workloads."""
    yield {"memory after traffic": {MEMORY: side.rss_mb()}}


WORKLOADS = (
    _produce("produce 1 KB", 300_000, 1_000, librdkafka.PRODUCE_LARGE_BATCHES),
    _produce("one-record requests", 6_000, 100, librdkafka.PRODUCE_ONE_BY_ONE),
    Workload("synchronous", ("synchronous produce",), _synchronous),
    Workload("memory", ("memory after traffic",), _memory),
)
GOALS: Ratios = {
    ("produce 1 KB", RECORDS_PER_S): Goal(least=1.3),
    ("produce 1 KB", CPU): Goal(most=0.5),
    ("one-record requests", RECORDS_PER_S): Goal(least=4.0),
    ("one-record requests", CPU): Goal(most=0.5),
    ("synchronous produce", P99): Goal(most=1.0),
    ("memory after traffic", MEMORY): Goal(most=0.15),
}
FULL = Pace(rounds=5, warm_up_passes=4, scale=1.0, places=("ram",))
QUICK = Pace(rounds=3, warm_up_passes=2, scale=0.2, places=("ram",))


def _throughput(settings: Settings) -> list[Table]:
    chosen = [workload for workload in WORKLOADS if settings.wants(workload.name)]
    if not chosen:
        return []
    pace = QUICK if settings.quick else FULL
    tables = []
    for place in settings.places or pace.places:
        say(f"three brokers, {PLACES[place].lower()}")
        with (
            directory(place) as base,
            running_clusters(list(settings.sides), base) as sides,
        ):
            compared = drive(sides, chosen, pace, settings.rounds or pace.rounds)
        title = f"Three brokers, three replicas, acks=all. {PLACES[place]}"
        tables.append(Table(title, rows_of(chosen, compared, GOALS)))
    return tables


# A broker that is lost


def _failover(settings: Settings) -> list[Table]:
    tables = []
    if settings.wants("failover"):
        tables += [
            failover.thousand_partitions(loss, settings.sides, settings.quick)
            for loss in failover.LOSSES
        ]
    if settings.wants("many-partitions") and BARNABAS in settings.sides:
        tables.append(many.many_partitions(settings.quick))
    return tables


# One broker, and four


def _scaling(settings: Settings) -> list[Table]:
    if not settings.wants("scaling") or BARNABAS not in settings.sides:
        return []
    say("one broker beside four")
    rounds = SCALE_ROUNDS if not settings.quick else 2
    records = {"one-record requests": 20_000, "produce 1 KB": 200_000}
    cpu: dict[tuple[str, int], list[float]] = {}
    with directory("ram") as base, ExitStack() as up:
        alone = up.enter_context(_running_alone(base / "one"))
        several = up.enter_context(running_ours(base / "several", SCALED))
        sides = {
            1: ClusterSide("one", alone.bootstrap_servers, alone.pid, (alone.pid,)),
            SCALED: ClusterSide(
                "four", several.bootstrap_servers, several.pid, tuple(children(several.pid))
            ),
        }
        for round_ in range(rounds + 1):  # the first warms up
            for what, count in records.items():
                for brokers, side in sides.items():
                    found = _spread(side, brokers, what, count // (5 if settings.quick else 1))
                    if round_:
                        cpu.setdefault((what, brokers), []).append(found)
    rows = []
    for what in records:
        one, four = (statistics.median(cpu[what, brokers]) for brokers in (1, SCALED))
        rows.append(Row(what, CPU, four, one, four / one, Goal(most=1.1)))
    return [Table("Four clients, on four brokers and on one", rows, peer="one broker")]


@contextmanager
def _running_alone(home: Path) -> Iterator[BrokerProcess]:
    home.mkdir(parents=True)
    broker = BrokerProcess(home / "data", log=home / "log")
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _spread(side: ClusterSide, brokers: int, what: str, records: int) -> float:
    """CPU of all brokers per record: the same producers, a topic each, on one broker or on all."""
    small = what == "one-record requests"
    options = librdkafka.PRODUCE_ONE_BY_ONE if small else librdkafka.PRODUCE_LARGE_BATCHES
    names = [f"spread-{number}-{time.time_ns()}" for number in range(SCALED)]
    for number, name in enumerate(names):
        side.create_on(name, number % brokers + 1)

    def produce(topic: str) -> None:
        librdkafka.produce(side.bootstrap_servers, topic, records, 100 if small else 1_000, options)

    cpu = side.cpu_s()
    with ThreadPoolExecutor(SCALED) as at_once:
        list(at_once.map(produce, names))
    spent = side.cpu_s() - cpu
    for name in names:
        side.delete_topic(name)
    return spent / (records * SCALED) * 1e6


def _run(settings: Settings) -> list[Table]:
    return _throughput(settings) + _failover(settings) + _scaling(settings)


SUITE = Suite(
    name="cluster",
    title="Three brokers: replication, failover, scaling",
    how=(
        "Three combined KRaft nodes of Kafka and `barnabas up --brokers 3` run at the same time "
        f"on the same machine. {FULL.rounds} interleaved rounds after {FULL.warm_up_passes} "
        "warm-up rounds, new topics of one partition and three replicas, "
        "`min.insync.replicas=2`, `acks=all`, librdkafka at full speed without Python. CPU and "
        "memory are those of all brokers together. Failover: one of three brokers is killed "
        "with -9, frozen with SIGSTOP, or hangs in a call of its event loop; the time is measured "
        "until each partition that it led has acknowledged a record with acks=all. The session "
        f"timeout ({SESSION_MS / 1000:g} s here) is subtracted, except where Barnabas is killed: "
        "it does not wait for one then."
    ),
    parts=(*(workload.name for workload in WORKLOADS), "failover", "many-partitions", "scaling"),
    run=_run,
)
