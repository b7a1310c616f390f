"""`python -m tests.fuzz --requests N [--seed S]`: N damaged requests against a broker."""

import argparse
import secrets
import sys

from tests.fuzz.locked import fuzz_locked
from tests.fuzz.run import MIB, check_flat, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--login",
        choices=("none", "before", "after"),
        default="none",
        help="a broker that requires a login: requests before it, or after it with few rights",
    )
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    print(f"{given.requests} requests, seed {seed}", flush=True)

    def say(line: str) -> None:
        print(line, flush=True)

    if given.login == "none":
        figures = fuzz(given.requests, seed, say)
    else:
        figures = fuzz_locked(given.requests, seed, say, logged_in=given.login == "after")
    check_flat(figures.rss)
    print(
        f"{figures.requests} requests on {figures.connections} connections in"
        f" {figures.took_s:.0f} s ({figures.requests / figures.took_s:.0f} a second),"
        f" {figures.answered_bytes // MIB} MiB of replies;"
        f" honest clients served in {figures.served_s_max * 1000:.0f} ms at most;"
        f" memory {figures.rss[0] // MIB} to {figures.rss[-1] // MIB} MiB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
