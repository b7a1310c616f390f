"""The suite "broker": records in and out, start and memory, beside Apache Kafka.

In: a running side and a scale. Out: one `Sample` per measured thing.
Always: a fresh topic per call, and no measurement shorter than the CPU clock can tell.
"""

import statistics
import subprocess
import time
from collections.abc import Iterator

from confluent_kafka import KafkaError, Message, Producer

from bench import confluent, free_memory, librdkafka, resources
from bench.figures import CPU, P50, P99, RECORDS_PER_S, Goal, Ratios, Sample, Samples, Table
from bench.sides import Side
from bench.suite import Pace, Settings, Suite, Workload, compare
from tests.support.java import kafka_tools

CONSUME_PASSES = 5
CLIENT_TIMES = 2  # the client is the limit, and how it is scheduled chance
TOOL_TIMEOUT_S = 180


def _sample(side: Side, records: int, cpu_before: float, seconds: float) -> Sample:
    return {RECORDS_PER_S: records / seconds, CPU: (side.cpu_s() - cpu_before) / records * 1e6}


def _large_batches(label: str, record_bytes: int, records: int, flat_out: bool) -> Workload:
    """Through confluent-kafka, a call for each record; or flat out, without Python's share."""
    driver = librdkafka if flat_out else confluent
    suffix = ", flat out" if flat_out else ""
    produced, consumed = f"produce {label}{suffix}", f"consume {label}{suffix}"

    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = int(records * scale)
        servers = side.bootstrap_servers
        with side.topic() as topic:
            free_memory.touch()
            cpu = side.cpu_s()
            seconds = driver.produce(
                servers, topic, count, record_bytes, librdkafka.PRODUCE_LARGE_BATCHES
            )
            yield {produced: _sample(side, count, cpu, seconds)}
            free_memory.touch()
            for _ in range(CONSUME_PASSES):
                cpu = side.cpu_s()
                seconds = driver.consume(servers, topic, count, librdkafka.CONSUME)
                yield {consumed: _sample(side, count, cpu, seconds)}

    name = f"{'flat-out' if flat_out else 'librdkafka'}-{label.replace(' ', '')}"
    return Workload(name, (produced, consumed), run, times=1 if flat_out else CLIENT_TIMES)


def _one_record_requests(side: Side, scale: float) -> Iterator[Samples]:
    count = int(60_000 * scale)
    with side.topic() as topic:
        cpu = side.cpu_s()
        seconds = librdkafka.produce(
            side.bootstrap_servers, topic, count, 100, librdkafka.PRODUCE_ONE_BY_ONE
        )
        yield {"one-record requests": _sample(side, count, cpu, seconds)}


def _synchronous(acks: str) -> Workload:
    label = f"synchronous produce, acks={acks}"

    def run(side: Side, scale: float) -> Iterator[Samples]:
        with side.topic() as topic:
            yield {label: _wait_for_each(side, topic, acks, int(3_000 * scale))}

    return Workload(f"sync-acks-{acks}", (label,), run)


def _wait_for_each(side: Side, topic: str, acks: str, count: int) -> Sample:
    producer = Producer({"bootstrap.servers": side.bootstrap_servers, "acks": acks, "linger.ms": 0})
    delivered: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        delivered.append(error)

    value = bytes(100)
    times_ms = []
    for number in range(-100, count):  # the first hundred connect and warm up
        delivered.clear()
        started = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
        while not delivered:
            producer.poll(1)
        if delivered[0] is not None:
            raise RuntimeError(f"{side.name} did not take a record: {delivered[0]}")
        if number >= 0:
            times_ms.append((time.perf_counter() - started) * 1e3)
    percentiles = statistics.quantiles(times_ms, n=100)
    return {P50: statistics.median(times_ms), P99: percentiles[98]}


def _run_tool(main: str, *arguments: str) -> list[str]:
    command = kafka_tools().command(f"org.apache.kafka.tools.{main}", *arguments)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{main} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout.strip().splitlines()


def _producer_performance(side: Side, topic: str, records: int, record_bytes: int) -> Sample:
    # A cold JVM would measure its own compiler: the tool leaves its first records out.
    warm_up = records // 4
    cpu = side.cpu_s()
    lines = _run_tool(
        "ProducerPerformance",
        *("--bootstrap-server", side.bootstrap_servers, "--topic", topic),
        *("--num-records", str(records + warm_up), "--warmup-records", str(warm_up)),
        *("--record-size", str(record_bytes), "--throughput", "-1"),
        *("--command-property", "linger.ms=5", "batch.size=1000000", "buffer.memory=134217728"),
    )
    # "N records sent, R records/sec (M MB/sec), ..."; the last such line is without the warm-up.
    summary = [line for line in lines if " records/sec " in line][-1]
    rate = float(summary.split(" records/sec ")[0].rpartition(" ")[2].replace(",", ""))
    return {RECORDS_PER_S: rate, CPU: (side.cpu_s() - cpu) / (records + warm_up) * 1e6}


def _consumer_performance(side: Side, topic: str, records: int) -> Sample:
    cpu = side.cpu_s()
    lines = _run_tool(
        "ConsumerPerformance",
        *("--bootstrap-server", side.bootstrap_servers, "--topic", topic),
        *("--num-records", str(records), "--timeout", "60000"),
    )
    names, values = (line.split(", ") for line in lines[-2:])
    # Without the seconds in which a group of one came together.
    rate = float(dict(zip(names, values, strict=True))["fetch.nMsg.sec"])
    return {RECORDS_PER_S: rate, CPU: (side.cpu_s() - cpu) / records * 1e6}


def _perf_tools(label: str, record_bytes: int, records: int) -> Workload:
    produced, consumed = f"ProducerPerformance {label}", f"ConsumerPerformance {label}"

    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = int(records * scale)
        with side.topic() as topic:
            yield {produced: _producer_performance(side, topic, count, record_bytes)}
            yield {consumed: _consumer_performance(side, topic, count)}

    name = f"perf-tools-{label.replace(' ', '')}"
    return Workload(name, (produced, consumed), run, needs_java=True)


WORKLOADS = (
    _large_batches("1 KB", 1_000, 800_000, flat_out=False),
    _large_batches("100 B", 100, 2_000_000, flat_out=False),
    _large_batches("1 KB", 1_000, 500_000, flat_out=True),
    _large_batches("100 B", 100, 3_000_000, flat_out=True),
    Workload("one-record", ("one-record requests",), _one_record_requests),
    _synchronous("all"),
    _synchronous("1"),
    _perf_tools("1 KB", 1_000, 500_000),
    _perf_tools("100 B", 100, 2_000_000),
)

GOALS: Ratios = {
    ("produce 1 KB", RECORDS_PER_S): Goal(least=1.1),
    ("produce 1 KB", CPU): Goal(most=0.5),
    ("produce 100 B", RECORDS_PER_S): Goal(least=1.0),
    ("produce 100 B", CPU): Goal(most=0.4),
    ("consume 1 KB", RECORDS_PER_S): Goal(least=1.0),
    ("consume 1 KB", CPU): Goal(most=0.8),
    ("consume 100 B", RECORDS_PER_S): Goal(least=1.0),
    ("consume 100 B", CPU): Goal(most=0.8),
    ("one-record requests", RECORDS_PER_S): Goal(least=2.0),
    ("one-record requests", CPU): Goal(most=0.35),
    ("synchronous produce, acks=all", P50): Goal(most=0.8),
    ("synchronous produce, acks=all", P99): Goal(most=1.0),
    ("synchronous produce, acks=1", P50): Goal(most=0.8),
    ("synchronous produce, acks=1", P99): Goal(most=1.0),
    ("ProducerPerformance 1 KB", RECORDS_PER_S): Goal(least=1.0),
    ("ProducerPerformance 100 B", RECORDS_PER_S): Goal(least=1.0),
    ("ConsumerPerformance 1 KB", RECORDS_PER_S): Goal(least=1.0),
    ("ConsumerPerformance 100 B", RECORDS_PER_S): Goal(least=1.0),
}

# A JVM goes on getting quicker for about six passes: in the first it spends twice the CPU per
# record that it does in the end, and a comparison with a cold one would flatter us.
# An even number of rounds: each side is the first in half of them.
FULL = Pace(rounds=6, warm_up_passes=6, scale=1.0, places=("ram", "disk"))
QUICK = Pace(rounds=3, warm_up_passes=6, scale=0.3, places=("ram",))


def _run(settings: Settings) -> list[Table]:
    tables = compare(settings, WORKLOADS, GOALS, QUICK if settings.quick else FULL)
    return tables + resources.tables(settings)


SUITE = Suite(
    name="broker",
    title="One broker: records in and out, start and memory",
    how=(
        f"{FULL.rounds} interleaved rounds after {FULL.warm_up_passes} to warm up, both brokers up "
        "at once, fresh topics of one partition, the same clients for both: librdkafka through "
        "confluent-kafka, with `linger.ms=100` and `batch.size=1000000` for full batches, and "
        f"Kafka's own tools. What goes through confluent-kafka is produced {CLIENT_TIMES} times in "
        f"each round, large batches are consumed {CONSUME_PASSES} times, and the sides take turns "
        "after each pass. Flat out is librdkafka driven without Python: the ceiling of one "
        "connection. There, with small records, two threads of the client contend for its "
        "allocator's lock, the more the sooner a reply comes (docs/adr/0037). Before large batches "
        "free memory is touched (docs/adr/0037). A ratio is the median of the comparisons' ratios, "
        "Barnabas to Kafka; absolute figures are medians of their own. Broker CPU is user and "
        "system time from `/proc`. "
        "Where the machine's congestion control is BBR, Kafka's connections are paced; "
        "ours on loopback are not (docs/adr/0036)."
    ),
    parts=(*(workload.name for workload in WORKLOADS), "start", "memory"),
    run=_run,
)
