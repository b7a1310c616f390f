"""Runs worlds: `python -m tests.simulator --seeds 2000`. A failure prints its seed and events.

`--bugs` instead plants each bug of tests/simulator/bugs in turn, and wants it found.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import chain
from time import perf_counter

from tests.simulator.run import Result, find_bug, in_child, run_seed

TOGETHER = 8  # worlds that a process runs one after the other
_warm = False

COVERAGE = (
    "elections",
    "controllers",
    "isr shrinks",
    "isr expands",
    "truncations",
    "unclean stops",
    "power losses",
    "sessions expired",
    "coordinator moves",
    "cuts",
    "records",
    "transactions committed",
    "transactions aborted",
    "transactions left open",
    "zombies",
    "records in transactions",
    "records in share groups",
    "redeliveries",
    "records acknowledged",
    "records not acknowledged",
    "share states moved",
    "share offsets altered",
    "share writes fenced",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--brokers", type=int, help="in every world; else as the seed has it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at the same time")
    parser.add_argument(
        "--transactions", action="store_true", help="in every world; else as the seed has it"
    )
    parser.add_argument(
        "--shares", action="store_true", help="share groups in every world; else as the seed has it"
    )
    parser.add_argument(
        "--outages", action="store_true", help="all replicas of a partition die at once, often"
    )
    parser.add_argument(
        "--transcript", action="store_true", help="print what happened in each world"
    )
    parser.add_argument("--bugs", nargs="*", help="plant these (or all), and find them")
    given = parser.parse_args()
    if given.bugs is not None:
        return bugs(given.bugs, given.seeds, given.jobs)
    return seeds(range(given.first, given.first + given.seeds), given)


def seeds(wanted: range, given: argparse.Namespace) -> int:
    began = perf_counter()
    counts: Counter[str] = Counter()
    failures: list[Result] = []
    cpu_s = 0.0
    with ProcessPoolExecutor(given.jobs) as pool:
        parts = [wanted[at : at + TOGETHER] for at in range(0, len(wanted), TOGETHER)]
        done = pool.map(_run, ((part, given) for part in parts))
        for result in shown(chain.from_iterable(done), len(wanted)):
            counts.update(result.counts)
            cpu_s += result.cpu_s
            if given.transcript:
                print(result.transcript)
            if result.failure:
                failures.append(result)
                print(f"\n{result.failure}\n")
    print(
        f"{len(wanted)} seeds in {perf_counter() - began:.0f} s"
        f" ({cpu_s / max(1, len(wanted)):.2f} s of CPU each), {len(failures)} failed"
    )
    each = (f"{counts[what] / len(wanted):.1f} {what}" for what in COVERAGE)
    print("per seed: " + ", ".join(each))
    if failures:
        print("failed: " + " ".join(str(result.seed) for result in failures))
    return 1 if failures else 0


def _run(arguments: tuple[range, argparse.Namespace]) -> list[Result]:
    """The first worlds of a worker leave it warm: the others are run in children of it."""
    global _warm
    wanted, given = arguments

    def run() -> list[Result]:
        return [
            run_seed(
                seed,
                given.brokers,
                whole_transcript=given.transcript,
                transactions=given.transactions,
                shares=given.shares or None,
                outages=given.outages,
            )
            for seed in wanted
        ]

    warm, _warm = _warm, True
    return in_child(run) if warm else run()


def bugs(names: list[str], seeds_max: int, jobs: int) -> int:
    from tests.simulator.bugs import BUGS

    wanted = names or list(BUGS)
    missed = []
    with ProcessPoolExecutor(jobs) as pool:
        hunts = {pool.submit(find_bug, name, seeds_max): name for name in wanted}
        for hunt in as_completed(hunts):
            name, broken = hunts[hunt], hunt.exception()
            found = None if broken else hunt.result()
            if found is None:
                missed.append(name)
                reason = f"CANNOT BE PLANTED: {broken!r}" if broken else "NOT FOUND"
                print(f"{reason} in {seeds_max} seeds  {name}", flush=True)
            else:
                print(f"seed {found.seed:<4} {name}: {found.problem[:160]}", flush=True)
    print(f"{len(wanted) - len(missed)} of {len(wanted)} bugs found")
    return 1 if missed else 0


def shown(results: Iterable[Result], total: int) -> Iterator[Result]:
    """With a bar that grows, where somebody is looking."""
    if not sys.stderr.isatty():
        yield from results
        return
    from rich.progress import track

    yield from track(results, "worlds", total=total)


if __name__ == "__main__":
    sys.exit(main())
