"""Barnabas and Apache Kafka side by side: `python -m bench --help`.

Both are up at once on the same disk and are driven in turn, round by round; the order of the two
changes with each round. The figures go to standard output and to docs/BENCHMARKS.md, progress to
standard error.
"""

import argparse
import datetime
import sys
import time
from dataclasses import dataclass

from bench import proc, report, resources
from bench.sides import BARNABAS, KAFKA, Side, directory, running_sides
from bench.workloads import WORKLOADS, Samples, Workload
from tests.peers.cache import ROOT, Missing
from tests.peers.java import kafka_lib

PLACES = {"ram": "On a RAM-backed directory", "disk": "On disk"}
DESCRIPTION_WIDTH = 36


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    rounds: int
    scale: float
    warm_up_passes: int
    places: tuple[str, ...]
    starts: int
    gigabytes: float
    connections: int


# A JVM goes on getting quicker for about six passes: in the first it spends twice the CPU per
# record that it does in the end, and a comparison with a cold one would flatter us.
FULL = Plan(5, 1.0, 6, ("ram", "disk"), 9, 10, 10_000)
QUICK = Plan(3, 0.3, 6, ("ram",), 3, 1, 2_000)


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help="interleaved rounds (5)")
    parser.add_argument(
        "--dir", choices=("ram", "disk", "both"), help="where the data lives (both)"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="|".join(_names()))
    parser.add_argument("--quick", action="store_true", help="a first look, in four minutes")
    parser.add_argument("--gigabytes", type=float, help="traffic before memory is read (10)")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--peer-only", action="store_true", help="Apache Kafka alone")
    alone.add_argument("--self-only", action="store_true", help="Barnabas alone, no Java needed")
    parser.add_argument("--no-file", action="store_true", help="leave docs/BENCHMARKS.md as it is")
    options = parser.parse_args()
    unknown = set(options.only or ()) - set(_names())
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: choose from {', '.join(_names())}")
    return options


def _names() -> list[str]:
    return [*(workload.name for workload in WORKLOADS), "start", "memory"]


def plan_of(options: argparse.Namespace) -> Plan:
    base = QUICK if options.quick else FULL
    places = {None: base.places, "both": ("ram", "disk")}.get(options.dir, (options.dir,))
    return Plan(
        options.rounds or base.rounds, base.scale, base.warm_up_passes, places, base.starts,
        options.gigabytes or base.gigabytes, base.connections,
    )  # fmt: skip


def sides_of(options: argparse.Namespace) -> list[str]:
    if options.self_only:
        return [BARNABAS]
    try:
        kafka_lib()
    except Missing as missing:
        sys.exit(f"Apache Kafka cannot be had: {missing}\n`--self-only` measures Barnabas alone.")
    return [KAFKA] if options.peer_only else [BARNABAS, KAFKA]


def measure(workload: Workload, side: Side, scale: float) -> Samples:
    samples = workload.run(side, scale)
    for what, sample in samples.items():
        figures = (
            f"{sample.records_per_s:,.0f}/s" if sample.records_per_s is not None else "",
            f"{sample.cpu_us_per_record:.2f} µs" if sample.cpu_us_per_record is not None else "",
            f"p50 {sample.p50_ms:.3f} ms" if sample.p50_ms is not None else "",
            f"p99 {sample.p99_ms:.3f} ms" if sample.p99_ms is not None else "",
        )
        say(f"  {side.name:9} {what:{DESCRIPTION_WIDTH}} {'  '.join(filter(None, figures))}")
    return samples


def drive(sides: list[Side], workloads: list[Workload], plan: Plan) -> list[dict[str, Samples]]:
    """All rounds; the warm-up of both sides comes first and is thrown away."""
    # Kafka's tools are JVMs of their own and would warm up little but themselves.
    warming = [workload for workload in workloads if not workload.needs_java] or workloads
    for number in range(plan.warm_up_passes):
        say(f"warm-up {number + 1} of {plan.warm_up_passes}")
        for workload in warming:
            for side in sides:
                workload.run(side, plan.scale)
    rounds = []
    for number in range(plan.rounds):
        say(f"round {number + 1} of {plan.rounds}")
        order = sides if number % 2 == 0 else sides[::-1]
        one: dict[str, Samples] = {side.name: {} for side in sides}
        for workload in workloads:
            for side in order:
                one[side.name].update(measure(workload, side, plan.scale))
        rounds.append(one)
    return rounds


def main() -> None:
    options = arguments()
    plan, names = plan_of(options), sides_of(options)
    wanted = set(options.only or _names())
    workloads = [workload for workload in WORKLOADS if workload.name in wanted]
    if options.self_only:
        workloads = [workload for workload in workloads if not workload.needs_java]
    open_files = resources.allow_open_files()
    bystanders = proc.Bystanders()
    tables: dict[str, list[report.Row]] = {}
    for place in plan.places:
        if not workloads:
            break
        say(PLACES[place])
        with directory(place) as base, running_sides(names, base) as sides:
            rounds = drive(sides, workloads, plan)
        tables[PLACES[place]] = report.workload_rows(workloads, rounds)
    costs: list[resources.Cost] = []
    if "start" in wanted:
        with directory("disk") as base:
            costs += resources.start_times(names, base, plan.starts, say)
    if "memory" in wanted:
        connections = min(plan.connections, open_files - 500)
        with directory("ram") as base:
            costs += resources.memory(names, base, plan.gigabytes, connections, say)
    if costs:
        tables["Start and memory"] = report.cost_rows(costs)
    for title, rows in tables.items():
        report.print_table(title, rows)
    others, stolen = bystanders.share()
    company = (
        f"Meanwhile other processes used {others:.0%} of this machine's CPU time, and its host "
        f"withheld {stolen:.0%}."
    )
    print(company)
    if options.quick:
        print(
            "A quick run leaves Kafka half warm, which flatters us: only a full run is a verdict."
        )
    if not (
        options.no_file or options.quick or options.only or options.peer_only or options.self_only
    ):
        how = (
            f"{plan.rounds} interleaved rounds after {plan.warm_up_passes} to warm up, both "
            "brokers up at once, fresh topics of one "
            "partition, the same clients for both: librdkafka as confluent-kafka brings it, with "
            "`linger.ms=5` and `batch.size=1000000` for large batches, and Kafka's own tools. "
            "A ratio is the median of the rounds' ratios, Barnabas to Kafka; absolute figures are "
            "medians of their own. Broker CPU is user and system time from `/proc`. "
            f"{company}"
        )
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        path = ROOT / "docs" / "BENCHMARKS.md"
        report.write_markdown(path, tables, proc.machine(), today, how)
        say(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
