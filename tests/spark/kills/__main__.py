"""`python -m tests.spark.kills --rounds N [--on local|cluster] [--what SUBJECT] [--kill KIND]
[--seed S]`. Each of --on, --what and --kill may be given several times.
"""

import argparse
import secrets
import time
from itertools import product

from tests.spark.kills.arena import KINDS
from tests.spark.kills.rounds import PLACES, run_rounds
from tests.spark.kills.subjects import ONCE, SUBJECTS, TABLES


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--on", action="append", choices=PLACES)
    parser.add_argument("--what", action="append", choices=list(SUBJECTS))
    parser.add_argument("--kill", action="append", choices=KINDS, help="only these")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    for what, place in product(given.what or (TABLES, ONCE), given.on or PLACES):
        print(f"{what}, {place}: {given.rounds} rounds, seed {seed}", flush=True)
        begun = time.monotonic()
        done = run_rounds(
            place,
            given.rounds,
            seed,
            lambda line: print(line, flush=True),
            what,
            given.kill or (),
        )
        ways = ", ".join(f"{count} {way}" for way, count in sorted(done.kills.items()))
        print(f"{given.rounds} rounds in {time.monotonic() - begun:.0f} s: {ways}")
        print(f"{done.records} records: {SUBJECTS[what].claims}")


if __name__ == "__main__":
    main()
