"""`python -m tests.spark.kills --rounds N [--on local|cluster] [--seed S]`."""

import argparse
import secrets
import time

from tests.spark.kills.rounds import PLACES, run_rounds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--on", action="append", choices=PLACES)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    for place in given.on or PLACES:
        print(f"{place}: {given.rounds} rounds, seed {seed}", flush=True)
        begun = time.monotonic()
        done = run_rounds(place, given.rounds, seed, say=lambda line: print(line, flush=True))
        ways = ", ".join(f"{count} {way}" for way, count in sorted(done.kills.items()))
        print(f"{given.rounds} rounds in {time.monotonic() - begun:.0f} s: {ways}")
        print(f"{done.records} records: lakes have each once, mirrors have all, none is skipped")


if __name__ == "__main__":
    main()
