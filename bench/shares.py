"""The suite "shares": share groups beside Apache Kafka.

In: settings. Out: tables. Members are connections of a load generator that does no work per record
(share_herd.py); the first record of a new group is received by a librdkafka share consumer.
"""

import time
from collections.abc import Callable, Iterator

from confluent_kafka import ShareConsumer

from bench import librdkafka, share_herd
from bench.figures import CPU, P50, P99, RECORDS_PER_S, Goal, Ratios, Samples, Table
from bench.share_members import ShareMember, start_at_the_beginning
from bench.sides import BARNABAS, KAFKA, Side
from bench.suite import Pace, Settings, Suite, Workload, compare

SECONDS = "s"
CPU_CORES = "broker CPU, cores"
MEMBERS = 4
ACKNOWLEDGERS = 10
IDLE_GROUPS, IDLE_EACH, IDLE_PARTITIONS = 10, 100, 10
HEARTBEAT_S = 5.0
FIRST_TIMEOUT_S = 60
IDLE_TOPIC = "idle-shares"

# Java's batch.size: a fetch of 500 records gets whole batches, so they must not be much larger.
PRODUCE = {"linger.ms": "100", "batch.size": "16384", "queue.buffering.max.messages": "1000000"}
# The brokers of the tests have a short heartbeat interval; this is Kafka's default, and ours. No
# member expires between rounds.
OPTIONS = {
    "group.share.max.session.timeout.ms": "1800000",
    "group.share.session.timeout.ms": "1800000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.heartbeat.interval.ms": "5000",
}


def _group() -> str:
    return f"shares-{time.time_ns()}"


def _drain(
    side: Side,
    records: int,
    record_bytes: int,
    members: int,
    drive: Callable[[list[ShareMember], int], float],
) -> dict[str, float]:
    """Records per second, and broker CPU per record, of a new group that reads a new topic."""
    with side.topic() as topic:
        # It sends one record more, to begin with.
        librdkafka.produce(side.bootstrap_servers, topic, records - 1, record_bytes, PRODUCE)
        with share_herd.joined(side.bootstrap_servers, topic, _group(), members) as joined:
            cpu = side.cpu_s()
            seconds = drive(joined, records)
            spent = side.cpu_s() - cpu
    return {RECORDS_PER_S: records / seconds, CPU: spent / records * 1e6}


def _consume(label: str, record_bytes: int, records: int) -> Workload:
    what = f"share consume {label}"

    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = int(records * scale)
        yield {what: _drain(side, count, record_bytes, MEMBERS, share_herd.consume)}

    return Workload(f"share-{label.replace(' ', '')}", (what,), run, times=2)


def _one_by_one(side: Side, scale: float) -> Iterator[Samples]:
    count = int(40_000 * scale)
    yield {
        "acknowledge one by one": _drain(
            side, count, 100, ACKNOWLEDGERS, share_herd.accept_one_by_one
        )
    }


def _first_record(side: Side, _scale: float) -> Iterator[Samples]:
    with side.topic() as topic:
        librdkafka.produce(side.bootstrap_servers, topic, 10, 100, PRODUCE)
        group = _group()
        start_at_the_beginning(side.bootstrap_servers, group)
        consumer = ShareConsumer(
            {"bootstrap.servers": side.bootstrap_servers, "group.id": group, "log_level": 0}
        )
        started = time.perf_counter()
        consumer.subscribe([topic])
        while not any(message.error() is None for message in consumer.poll(1.0)):
            if time.perf_counter() - started > FIRST_TIMEOUT_S:
                raise TimeoutError(f"{side.name}: no record of {topic}")
        yield {"first record of a new group": {SECONDS: time.perf_counter() - started}}
        consumer.close()


def _idle() -> Workload:
    label = f"{IDLE_GROUPS * IDLE_EACH:,} members, heartbeats and polls"
    living: dict[str, share_herd.IdleMembers] = {}

    def run(side: Side, scale: float) -> Iterator[Samples]:
        servers = side.bootstrap_servers
        if servers not in living:
            side.create_topic(IDLE_TOPIC, IDLE_PARTITIONS)
            groups = [f"idle-{number}" for number in range(IDLE_GROUPS)]
            living[servers] = share_herd.IdleMembers(
                share_herd.join(servers, IDLE_TOPIC, groups, IDLE_EACH)
            )
        cpu = side.cpu_s()
        beats = living[servers].live(HEARTBEAT_S, 10 * scale)
        spent = side.cpu_s() - cpu
        yield {label: {CPU_CORES: spent / beats.seconds, P50: beats.p50_ms, P99: beats.p99_ms}}

    return Workload("share-members", (label,), run)


DELIVERIES = (
    _consume("1 KB", 1_000, 200_000),
    _consume("100 B", 100, 600_000),
    Workload("one-by-one", ("acknowledge one by one",), _one_by_one),
    Workload("first-record", ("first record of a new group",), _first_record),
)
IDLE = (_idle(),)
GOALS: Ratios = {
    **{
        (workload.measures[0], figure): goal
        for workload in DELIVERIES[:2]
        for figure, goal in ((RECORDS_PER_S, Goal(least=1.5)), (CPU, Goal(most=0.5)))
    },
    ("acknowledge one by one", RECORDS_PER_S): Goal(least=2.0),
    ("first record of a new group", SECONDS): Goal(most=0.2),
    (IDLE[0].measures[0], CPU_CORES): Goal(most=0.5),
}
FULL = Pace(rounds=6, warm_up_passes=6, scale=1.0, places=("ram",))
QUICK = Pace(rounds=2, warm_up_passes=1, scale=0.2, places=("ram",))


def _run(settings: Settings) -> list[Table]:
    pace = QUICK if settings.quick else FULL
    tables = []
    for title, workloads in (("Records", DELIVERIES), ("A thousand idle members", IDLE)):
        # Idle members have brokers of their own: they would use CPU time while records are read.
        found = compare(settings, workloads, GOALS, pace, {BARNABAS: OPTIONS, KAFKA: OPTIONS})
        tables += [Table(f"{title}: {table.title.lower()}", table.rows) for table in found]
    return tables


SUITE = Suite(
    name="shares",
    title="Share groups: records, acknowledgements, members",
    how=(
        f"{FULL.rounds} interleaved rounds after {FULL.warm_up_passes} warm-up rounds, both "
        "brokers running at the same time with the default options of share groups. Records are "
        f"received by {MEMBERS} members of a new group from one partition, in batches of 16 KB; "
        "the members are connections of a load generator that looks at no record, and a fetch "
        "asks for 500 records and accepts those of the fetch before. One by one: "
        f"{ACKNOWLEDGERS} members, a ShareAcknowledge for each record, which waits for its reply. "
        "The first record: from the subscription of a librdkafka share consumer with default "
        f"options to its first record. {IDLE_GROUPS * IDLE_EACH:,} members are in {IDLE_GROUPS} "
        "groups, each with two connections, a heartbeat every five seconds and a fetch that waits "
        "for half a second, again and again. A ratio is the median of the ratios of the rounds, "
        "Barnabas to Kafka."
    ),
    parts=tuple(workload.name for workload in (*DELIVERIES, *IDLE)),
    run=_run,
)
