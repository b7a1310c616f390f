"""`python -m tests.kill --runs N [--seed S]`: kill -9 under load, N times."""

import argparse
import secrets
import statistics
import sys
import time

from tests.kill.rounds import run_all


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    print(f"{given.runs} runs, seed {seed}", flush=True)
    started = time.monotonic()
    done = run_all(given.runs, seed, say=lambda line: print(line, flush=True))
    took = time.monotonic() - started
    ways = ", ".join(f"{count} {way}" for way, count in sorted(done.kills.items()))
    print(f"{given.runs} runs in {took:.0f} s: {ways}")
    print(
        f"{done.acknowledged} records acknowledged, all there, none twice;"
        f" ready again in {statistics.median(done.ready_ms):.0f} ms"
        f" ({max(done.ready_ms)} ms at most)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
