"""`python -m tests.os_faults`: every fault at every call site, on one broker and on three.

`--write` puts the table into docs/DURABILITY.md; `--only TEXT` plays the rounds whose site has it.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.os_faults import table
from tests.os_faults.control import EINTR, FIRST_START, Action, Site, actions_for
from tests.os_faults.rig import Rig
from tests.os_faults.rounds import UNMET, Outcome, first_start, play, recorded


def played(
    home: Path, count: int, rounds: list[tuple[Site, Action]]
) -> Generator[Outcome, None, None]:
    """One rig for as long as it stays well."""
    rig: Rig | None = None
    number = 0
    try:
        for site, action in rounds:
            if site.phase == FIRST_START:
                number += 1
                yield first_start(home / f"first-{number}", count, site, action)
                shutil.rmtree(home / f"first-{number}", ignore_errors=True)
                continue
            if rig is None:
                number += 1
                rig = Rig(home / f"rig-{number}", count)
                rig.begin()
            outcome = play(rig, site, action)
            if outcome.failed:
                rig.end()
                rig = None
            yield outcome
    finally:
        if rig is not None:
            rig.end()


def main() -> int:
    options = argparse.ArgumentParser(prog="tests.os_faults", description=__doc__)
    options.add_argument("--brokers", default="1,3")
    options.add_argument("--only", default="")
    options.add_argument("--share", type=float, default=1.0, help="of the rounds, drawn by --seed")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument(
        "--seconds", type=float, default=float("inf"), help="per number of brokers"
    )
    options.add_argument("--verbose", action="store_true", help="a line for each round")
    options.add_argument(
        "--keep", type=Path, help="a file of outcomes; rounds that are clean in it are not repeated"
    )
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="os-faults-") as home:
        counts = list(map(int, given.brokers.split(",")))
        with ThreadPoolExecutor(len(counts)) as side_by_side:
            results = list(side_by_side.map(lambda n: whole(Path(home) / str(n), n, given), counts))
    sites = {count: found for count, (found, _, _) in zip(counts, results, strict=True)}
    wanted = sum(rounds for _, rounds, _ in results)
    outcomes = [outcome for _, _, each in results for outcome in each]
    failed = [outcome for outcome in outcomes if outcome.failed]
    unmet = sum(outcome.what == UNMET for outcome in outcomes)
    print(
        f"{sum(sites.values())} call sites, {len(outcomes)} of {wanted} rounds,"
        f" {unmet} not met, {len(failed)} failed"
    )
    if given.write:
        table.write(sites, wanted, outcomes)
    return 1 if failed else 0


def whole(home: Path, count: int, given: argparse.Namespace) -> tuple[int, int, list[Outcome]]:
    """How many sites there are, how many rounds that makes, and what came of those played."""
    found = recorded(home / "recording", count)
    print(f"{len(found)} call sites on {count} broker(s)", flush=True)
    rounds = [(s, a) for s in found for a in actions_for(s) if given.only in f"{s} {a.name}"]
    rounds = Random(given.seed).sample(rounds, int(len(rounds) * given.share))
    played_before = [o for o in kept(given.keep) if o.brokers == count and not o.failed]
    done = {(o.site[1:], o.action) for o in played_before}
    wanted = len(rounds)
    left = [(site, action) for site, action in rounds if (site[1:], action) not in done]
    rounds = in_order(left)
    return len(found), wanted, [*played_before, *run(home, count, rounds, given)]


def in_order(rounds: list[tuple[Site, Action]]) -> list[tuple[Site, Action]]:
    """Where time is short: one site of each call, file and fault before the others of the kind;
    what has never gone wrong, and what takes longest, last."""
    alike: Counter[tuple[str, str, str]] = Counter()
    ranked = []
    for site, action in rounds:
        kind = (site.call, site.kind, action.name)
        last = site.phase == FIRST_START or action is EINTR
        ranked.append((last, alike[kind], site, action))
        alike[kind] += 1
    ranked.sort(key=lambda each: each[:2])
    return [(site, action) for _, _, site, action in ranked]


def kept(path: Path | None) -> list[Outcome]:
    if path is None or not path.exists():
        return []
    return [Outcome.of(json.loads(line)) for line in path.read_text().splitlines()]


def run(
    home: Path, count: int, rounds: list[tuple[Site, Action]], given: argparse.Namespace
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    began = last = time.monotonic()
    playing = played(home, count, rounds)
    for number, outcome in enumerate(playing, 1):
        outcomes.append(outcome)
        if given.keep is not None:
            with given.keep.open("a") as file:
                file.write(json.dumps(outcome) + "\n")
        if given.verbose:
            taken_s, last = time.monotonic() - last, time.monotonic()
            print(
                f"{taken_s:5.1f} s {outcome.action.name} at {outcome.site}"
                f" [{outcome.site.phase}]: {outcome.what or 'FAILED'}",
                flush=True,
            )
        if outcome.failed:
            print(
                f"\rFAILED {outcome.action.name} at {outcome.site} [{outcome.site.phase}]:"
                f" {outcome.failed}",
                flush=True,
            )
        if sys.stderr.isatty():
            width = 40 * number // len(rounds)
            bar = "#" * width + "." * (40 - width)
            print(f"\r{count} broker(s) [{bar}] {number}/{len(rounds)}", end="", file=sys.stderr)
        if time.monotonic() - began > given.seconds:
            print(f"time is up after {number} of {len(rounds)} rounds")
            break
    playing.close()
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
