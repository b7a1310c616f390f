"""`python -m tests.spark.kills --rounds N [--on local|cluster] [--what SUBJECT] [--seed S]`."""

import argparse
import secrets
import time
from itertools import product

from tests.spark.kills.arena import KAFKA_SINK, SINK, TABLES
from tests.spark.kills.rounds import PLACES, SUBJECTS, run_rounds

TRUE_OF = {
    TABLES: "lakes have each once, mirrors have all, none is skipped",
    SINK: "the topic has each once",
    KAFKA_SINK: "the topic of Apache Kafka has each once",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--on", action="append", choices=PLACES)
    parser.add_argument("--what", action="append", choices=SUBJECTS)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    for what, place in product(given.what or SUBJECTS, given.on or PLACES):
        print(f"{what}, {place}: {given.rounds} rounds, seed {seed}", flush=True)
        begun = time.monotonic()
        done = run_rounds(place, given.rounds, seed, lambda line: print(line, flush=True), what)
        ways = ", ".join(f"{count} {way}" for way, count in sorted(done.kills.items()))
        print(f"{given.rounds} rounds in {time.monotonic() - begun:.0f} s: {ways}")
        print(f"{done.records} records: {TRUE_OF[what]}")


if __name__ == "__main__":
    main()
