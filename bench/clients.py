"""The suite "clients": our client beside confluent-kafka, aiokafka and kafka-python.

Each client works in a process of its own, against the same broker, in the same round; the order
changes from round to round. A task is a function per client in client_child.py, and a line of
`COMPARISONS` here.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from bench.client_child import RECORD_SIZE
from bench.client_readers import PARTITIONS, WARM_UP
from bench.figures import P50, RECORDS_PER_S, Goal, Row, Sample, Table
from bench.sides import Side, directory, running_sides
from bench.suite import Settings, Suite, say
from tests.support.cache import ROOT

CLIENT_CPU = "client CPU µs/record"
TIMEOUT_S = 300


@dataclass(frozen=True)
class Comparison:
    """One of our clients and one peer at one task: the figures that count, with their goals."""

    task: str
    ours: str
    peer: str
    goals: dict[str, Goal | None]


COMPARISONS = (
    Comparison(
        "produce",
        "barnabas",
        "confluent-kafka",
        {RECORDS_PER_S: Goal(least=1.0), CLIENT_CPU: Goal(most=1.0)},
    ),
    Comparison(
        "produce",
        "barnabas",
        "aiokafka",
        {RECORDS_PER_S: Goal(least=5.0), CLIENT_CPU: Goal(most=1.0)},
    ),
    Comparison("produce", "barnabas-uncompiled", "kafka-python", {RECORDS_PER_S: Goal(least=1.0)}),
    Comparison("produce", "barnabas.sync", "confluent-kafka", {RECORDS_PER_S: None}),
    Comparison("produce", "barnabas.sync", "kafka-python", {RECORDS_PER_S: None}),
    Comparison("round-trip", "barnabas", "aiokafka", {P50: Goal(most=1.0)}),
    Comparison(
        "consume",
        "barnabas",
        "confluent-kafka",
        {RECORDS_PER_S: Goal(least=1.5), CLIENT_CPU: Goal(most=1.0)},
    ),
    Comparison(
        "consume",
        "barnabas",
        "aiokafka",
        {RECORDS_PER_S: Goal(least=2.5), CLIENT_CPU: Goal(most=1.0)},
    ),
    Comparison(
        "consume",
        "barnabas",
        "confluent-kafka-eager",
        {RECORDS_PER_S: Goal(least=1.5), CLIENT_CPU: Goal(most=1.0)},
    ),
    Comparison("consume", "barnabas-arrow", "confluent-kafka", {RECORDS_PER_S: Goal(least=5.0)}),
    Comparison("consume", "barnabas-arrow", "confluent-kafka-eager", {RECORDS_PER_S: None}),
    Comparison("consume", "barnabas-uncompiled", "kafka-python", {RECORDS_PER_S: Goal(least=1.0)}),
    Comparison("consume", "barnabas-async-for", "aiokafka", {RECORDS_PER_S: None}),
    Comparison("consume", "barnabas.sync", "confluent-kafka", {RECORDS_PER_S: None}),
)

# Enough for about two seconds of each.
COUNTS = {
    ("produce", "barnabas"): 1_500_000,
    ("produce", "confluent-kafka"): 1_000_000,
    ("produce", "barnabas.sync"): 700_000,
    ("produce", "aiokafka"): 200_000,
    ("produce", "barnabas-uncompiled"): 100_000,
    ("produce", "kafka-python"): 50_000,
    ("round-trip", "barnabas"): 3_000,
    ("round-trip", "aiokafka"): 3_000,
    ("consume", "barnabas"): 2_000_000,
    ("consume", "barnabas.sync"): 2_000_000,
    ("consume", "barnabas-async-for"): 1_500_000,
    ("consume", "barnabas-arrow"): 4_000_000,
    ("consume", "barnabas-uncompiled"): 300_000,
    ("consume", "confluent-kafka"): 1_000_000,
    ("consume", "confluent-kafka-eager"): 2_000_000,
    ("consume", "aiokafka"): 1_000_000,
    ("consume", "kafka-python"): 200_000,
}


def measure(side: Side, task: str, client: str, scale: float) -> Sample:
    """One client at one task, on a fresh topic."""
    count = int(COUNTS[task, client] * scale)
    with side.topic(PARTITIONS) as topic:
        if task == "consume":
            fill(side.bootstrap_servers, topic, count + WARM_UP)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "bench.client_child"),
                *(task, client, side.bootstrap_servers, topic, str(count)),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{client} failed to {task}: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    sample = {
        RECORDS_PER_S: count / result["seconds"],
        CLIENT_CPU: result["cpu_s"] / count * 1e6,
    }
    if "times" in result:
        sample[P50] = statistics.median(result["times"]) * 1e3
    figures = "  ".join(f"{value:,.4g} {figure}" for figure, value in sample.items())
    say(f"  {side.name:9} {task:12} {client:20} {figures}")
    return sample


def fill(servers: str, topic: str, count: int) -> None:
    """Batches of some 100 kB, spread evenly, as a busy producer makes them."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 100_000, "acks": "all",
         "queue.buffering.max.messages": 100_000}
    )  # fmt: skip
    value = bytes(RECORD_SIZE)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()


def measure_all(side: Side, settings: Settings) -> list[dict[tuple[str, str], Sample]]:
    rounds = settings.rounds or (2 if settings.quick else 5)
    scale = 0.3 if settings.quick else 1.0
    wanted = [c for c in COMPARISONS if settings.wants(c.task)]
    runs = list(dict.fromkeys((c.task, name) for c in wanted for name in (c.ours, c.peer)))
    found = []
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        order = runs if number % 2 == 0 else runs[::-1]
        found.append({(task, name): measure(side, task, name, scale) for task, name in order})
    return found


def rows_of(
    rounds: Sequence[dict[tuple[str, str], Sample]], peer: str, settings: Settings
) -> list[Row]:
    """A ratio is the median of the rounds' own; the figures are medians of their own."""
    rows = []
    for comparison in COMPARISONS:
        if comparison.peer != peer or not settings.wants(comparison.task):
            continue
        ours = [one[comparison.task, comparison.ours] for one in rounds]
        theirs = [one[comparison.task, comparison.peer] for one in rounds]
        for figure, goal in comparison.goals.items():
            mine = [sample[figure] for sample in ours]
            others = [sample[figure] for sample in theirs]
            ratios = [a / b for a, b in zip(mine, others, strict=True)]
            rows.append(
                Row(
                    f"{comparison.task}, {comparison.ours}",
                    figure,
                    statistics.median(mine),
                    statistics.median(others),
                    statistics.median(ratios),
                    goal,
                )
            )
    return rows


def _run(settings: Settings) -> list[Table]:
    tables = []
    with (
        directory("ram") as base,
        running_sides(list(settings.sides), base) as sides,
    ):
        for side in sides:
            rounds = measure_all(side, settings)
            for peer in dict.fromkeys(comparison.peer for comparison in COMPARISONS):
                if rows := rows_of(rounds, peer, settings):
                    library = peer.removesuffix("-eager")
                    title = f"Against {side.name}, beside {peer}"
                    tables.append(Table(title, rows, peer=f"{peer} {version(library)}"))
    return tables


SUITE = Suite(
    name="clients",
    title="Clients: ours beside the others, on the same broker",
    how=(
        "5 rounds, each client in a process of its own, in an order that changes; 100 B records "
        f"without keys, {PARTITIONS} partitions, `acks=all`, `linger.ms=5` and large batches for "
        "all when many records are produced (ours drained after each hundred), no lingering when "
        "each is awaited; read in batches of some 100 kB, up to 10,000 messages at a time. Clients "
        "are as they come; `confluent-kafka-eager` has `fetch.queue.backoff.ms=5`. "
        "CPU is the client process's. The broker shares the machine with the client."
    ),
    parts=tuple(dict.fromkeys(comparison.task for comparison in COMPARISONS)),
    run=_run,
)
