"""`python -m tests.cluster --rounds N [--keeper file|zookeeper] [--kinds a,b] [--seed S]`."""

import argparse
import secrets
import statistics
import sys
import time

from tests.cluster.faults import parse_kinds
from tests.cluster.rounds import run_all

KEEPERS = ("file", "zookeeper")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind (3)")
    parser.add_argument("--keeper", choices=(*KEEPERS, "both"), default="both")
    parser.add_argument("--kinds", default="", help="with commas between; all unless told")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    for keeper in KEEPERS if given.keeper == "both" else (given.keeper,):
        kinds = parse_kinds(given.kinds, keeper)
        print(f"{given.rounds} rounds of {', '.join(kinds)} on a {keeper}, seed {seed}", flush=True)
        started = time.monotonic()
        done = run_all(
            given.rounds,
            kinds,
            keeper,
            seed,
            say=lambda line: print(line, flush=True),
            brokers=given.brokers,
        )
        took = time.monotonic() - started
        print(
            f"{sum(done.faults.values())} rounds in {took:.0f} s"
            f" ({statistics.median(done.seconds):.1f} s each):"
            f" {done.acknowledged} records acknowledged, all there, none twice, in order",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
