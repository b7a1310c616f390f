"""The suite "transactions": transactions on one broker and on three, beside Apache Kafka.

In: settings. Out: tables: throughput and commit latency by the length of a transaction, the cost
beside an idempotent producer, and a thousand producers that commit small transactions.
Always: the same clients for both sides; librdkafka speaks the first version of the protocol, the
thousand producers both.
"""

import statistics
from collections.abc import Iterator
from contextlib import closing

from bench import free_memory, librdkafka, transaction_herd
from bench.cluster import running_clusters
from bench.figures import CPU, P50, P99, RECORDS_PER_S, Goal, Ratios, Sample, Samples, Table
from bench.sides import Side, directory, running_sides
from bench.suite import PLACES, Pace, Settings, Suite, Workload, drive, rows_of, say

COMMITS_PER_S = "commits/s"
CPU_PER_COMMIT = "broker CPU µs/commit"
LENGTHS_MS = (10, 100, 1_000)
SIZES = {"100 B": 100, "1 KB": 1_000}
CHUNK = 500  # records of one call
PRODUCERS = 1_000


def _percentiles(times_ms: list[float]) -> Sample:
    return {P50: statistics.median(times_ms), P99: statistics.quantiles(times_ms, n=100)[98]}


def _throughput(label: str, record_bytes: int, length_ms: int) -> Workload:
    what = f"{label}, commit every {length_ms:,} ms"
    seconds = 3.0

    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = max(2, int(seconds * scale * 1_000 / length_ms))
        with side.topic() as topic:
            free_memory.touch()
            cpu = side.cpu_s()
            done = librdkafka.transactions(
                side.bootstrap_servers,
                topic,
                record_bytes,
                count=count,
                length_ms=length_ms,
                chunk=CHUNK,
            )
            spent = side.cpu_s() - cpu
            yield {
                what: {
                    RECORDS_PER_S: done.records / done.seconds,
                    CPU: spent / done.records * 1e6,
                }
            }

    return Workload(f"every-{length_ms}-ms-{label.replace(' ', '')}", (what,), run)


def _latency(side: Side, scale: float) -> Iterator[Samples]:
    count = max(100, int(500 * scale))
    with side.topic() as topic:
        done = librdkafka.transactions(
            side.bootstrap_servers, topic, 100, count=count, length_ms=0, chunk=1
        )
        yield {
            "commit": _percentiles(done.commits_ms),
            "transaction of one record": _percentiles(done.whole_ms),
        }


def _end_requests(name: str, protocol: transaction_herd.Protocol) -> Workload:
    """Without a client's threads: what the broker takes for it."""
    what = f"EndTxn, {name}"

    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = max(100, int(500 * scale))
        with side.topic() as topic:
            servers = side.bootstrap_servers
            times_ms = transaction_herd.commit_times_ms(servers, topic, protocol, count)
            yield {what: _percentiles(times_ms)}

    return Workload(f"end-requests-{name.replace(' ', '-')}", (what,), run)


def _small_transactions(name: str, protocol: transaction_herd.Protocol) -> Workload:
    what = f"{PRODUCERS:,} producers, {name}"

    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = int(20_000 * scale)
        with side.topic(transaction_herd.PARTITIONS) as topic:
            servers = side.bootstrap_servers
            herd = transaction_herd.TransactionHerd(servers, topic, PRODUCERS, protocol)
            with closing(herd):
                cpu = side.cpu_s()
                seconds = herd.commit(count)
                spent = side.cpu_s() - cpu
            yield {what: {COMMITS_PER_S: count / seconds, CPU_PER_COMMIT: spent / count * 1e6}}

    return Workload(f"many-producers-{name.replace(' ', '-')}", (what,), run)


ON_EACH = (
    *(_throughput(label, size, length) for label, size in SIZES.items() for length in LENGTHS_MS),
    Workload("commit-latency", ("commit", "transaction of one record"), _latency),
)
ON_ONE = (
    *ON_EACH,
    *(_end_requests(*each) for each in transaction_herd.PROTOCOLS.items()),
    *(_small_transactions(*each) for each in transaction_herd.PROTOCOLS.items()),
)
GOALS: Ratios = {
    **{
        (what, figure): goal
        for workload in ON_EACH[:-1]
        for what in workload.measures
        for figure, goal in ((RECORDS_PER_S, Goal(least=1.2)), (CPU, Goal(most=0.6)))
    },
    ("commit", P50): Goal(most=0.7),
    ("commit", P99): Goal(most=0.7),
    **{
        (f"EndTxn, {name}", figure): Goal(most=0.7)
        for name in transaction_herd.PROTOCOLS
        for figure in (P50, P99)
    },
    **{
        (f"{PRODUCERS:,} producers, {name}", figure): goal
        for name in transaction_herd.PROTOCOLS
        for figure, goal in ((COMMITS_PER_S, Goal(least=1.0)), (CPU_PER_COMMIT, Goal(most=0.7)))
    },
}
FULL = Pace(rounds=4, warm_up_passes=3, scale=1.0, places=("ram",))
QUICK = Pace(rounds=2, warm_up_passes=2, scale=0.3, places=("ram",))


def _run(settings: Settings) -> list[Table]:
    pace = QUICK if settings.quick else FULL
    tables = []
    for place in settings.places or pace.places:
        for title, workloads, running in (
            ("One broker", ON_ONE, running_sides),
            ("Three brokers, three replicas", ON_EACH, running_clusters),
        ):
            chosen = [workload for workload in workloads if settings.wants(workload.name)]
            if not chosen:
                continue
            say(f"{title.lower()}, {PLACES[place].lower()}")
            with directory(place) as base, running(list(settings.sides), base) as sides:
                compared = drive(sides, chosen, pace, settings.rounds or pace.rounds)
            full_title = f"{title}. {PLACES[place]}"
            tables.append(Table(full_title, rows_of(chosen, compared, GOALS)))
    return tables


SUITE = Suite(
    name="transactions",
    title="Transactions: throughput, commits, many producers",
    how=(
        f"{FULL.rounds} interleaved rounds after {FULL.warm_up_passes} warm-up rounds; both sides "
        "run at the same time. Throughput and latency: librdkafka without Python per record, one "
        "transactional producer, one partition, transactions of the given length, `linger.ms=1`. "
        "The records of a transaction are acknowledged before its commit begins, so a commit is "
        "EndTxn alone; a transaction of one record is everything from begin to commit, with the "
        "client's waits for the transaction before. EndTxn is the same request from a socket, "
        f"without a client's threads. {PRODUCERS:,} producers: one connection each, "
        f"{transaction_herd.PARTITIONS} partitions, one record of 100 bytes per transaction, "
        "requests built by the benchmark, in both versions of the protocol (the second one is "
        "KIP-890)."
    ),
    parts=tuple(workload.name for workload in ON_ONE),
    run=_run,
)
