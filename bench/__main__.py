"""Barnabas beside its peers, suite by suite: `python -m bench --help`.

Both sides are up at once on the same disk and are driven in turn, round by round; the order of
the two changes with each round. The figures go to standard output and, suite by suite, to
docs/BENCHMARKS.md, progress to standard error.
"""

import argparse
import datetime
import sys

from bench import memory_disk, proc, report, resources
from bench.figures import Table
from bench.sides import BARNABAS, KAFKA
from bench.suite import NAMES, Settings, Suite, say, suite
from tests.support.cache import ROOT, Missing
from tests.support.java import kafka_lib

PAGE = ROOT / "docs" / "BENCHMARKS.md"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--suite", action="append", choices=NAMES, help="all unless told")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (5, or 6)")
    parser.add_argument(
        "--dir", choices=("ram", "disk", "both"), help="where the data lives (both)"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="a part of a suite")
    parser.add_argument("--quick", action="store_true", help="a first look, in minutes")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--peer-only", action="store_true", help="the peer alone")
    alone.add_argument("--self-only", action="store_true", help="Barnabas alone, no Java needed")
    parser.add_argument("--no-file", action="store_true", help="leave docs/BENCHMARKS.md as it is")
    return parser.parse_args()


def settings_of(options: argparse.Namespace) -> Settings:
    places = {None: None, "both": ("ram", "disk")}.get(options.dir, (options.dir,))
    sides: tuple[str, ...] = (BARNABAS, KAFKA)
    if options.self_only:
        sides = (BARNABAS,)
    else:
        try:
            kafka_lib()
        except Missing as missing:
            sys.exit(
                f"Apache Kafka cannot be had: {missing}\n`--self-only` measures Barnabas alone."
            )
        if options.peer_only:
            sides = (KAFKA,)
    return Settings(options.quick, options.rounds, places, sides, frozenset(options.only or ()))


def run(one: Suite, settings: Settings, *, keep: bool) -> list[Table]:
    """Measure, print, and if it was a whole run write the suite's section."""
    bystanders = proc.Bystanders()
    tables = one.run(settings)
    for table in tables:
        report.print_table(table)
    others, stolen = bystanders.share()
    company = (
        f"Meanwhile other processes used {others:.0%} of this machine's CPU time, and its host "
        f"withheld {stolen:.0%}."
    )
    print(company)
    if keep:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        body = report.section(one.title, tables, proc.machine(), today, f"{one.how} {company}")
        report.write_section(PAGE, one.name, body, NAMES)
        say(f"written: {one.name} in {PAGE.relative_to(ROOT)}")
    return tables


def main() -> None:
    options = arguments()
    settings = settings_of(options)
    suites = [suite(name) for name in options.suite or NAMES]
    parts = [part for one in suites for part in one.parts]
    if unknown := settings.only - set(parts):
        sys.exit(f"--only {', '.join(sorted(unknown))}: choose from {', '.join(parts)}")
    if settings.only:
        suites = [one for one in suites if settings.only & set(one.parts)]
    resources.allow_open_files()
    try:
        memory_disk.have_large_pages()
    except OSError as refused:
        say(f"the memory disk stays as it is ({memory_disk.kind()}): {refused}")
    whole = not (settings.quick or settings.only or len(settings.sides) < 2)
    tables = [
        table for one in suites for table in run(one, settings, keep=whole and not options.no_file)
    ]
    if settings.quick:
        print(
            "A quick run leaves a JVM half warm, which flatters us: only a full run is a verdict."
        )
    print(report.summary(tables))  # a benchmark is no test: the exit code is 0 all the same


if __name__ == "__main__":
    main()
