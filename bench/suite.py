"""The suites, and the usual way to run one: two brokers, round by round.

A suite is a module `bench/NAME.py` with a `SUITE`; adding its name to `NAMES` is all. Its `run`
measures and returns tables. Most compare Barnabas and Apache Kafka by workloads, which `compare`
does; a suite with another peer makes its own rows.
"""

import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.figures import Ratios, Row, Samples, Table
from bench.sides import BARNABAS, KAFKA, Side, directory, running_sides

NAMES = (
    "broker",
    "tls",
    "security",
    "groups",
    "shares",
    "delays",
    "cluster",
    "transactions",
    "log-life",
    "clients",
    "spark",
    "spark-once",
    "console",
)

PLACES = {"ram": "On a RAM-backed directory", "disk": "On disk"}


@dataclass(frozen=True)
class Settings:
    """The settings of a run, from the command line."""

    quick: bool = False
    rounds: int | None = None
    places: tuple[str, ...] | None = None
    sides: tuple[str, ...] = (BARNABAS, KAFKA)
    only: frozenset[str] = frozenset()

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only


@dataclass(frozen=True)
class Suite:
    """`how`: the conditions of the measurement, for the page; `parts`: the names for --only."""

    name: str
    title: str
    how: str
    parts: tuple[str, ...]
    run: Callable[[Settings], list[Table]]


@dataclass(frozen=True)
class Workload:
    """`run(side, scale)` yields its measurements, part by part: after each part the sides take
    turns. `times`: how often it runs in a round; more often if its results vary more.
    """

    name: str
    measures: tuple[str, ...]
    run: Callable[[Side, float], Iterator[Samples]]
    needs_java: bool = False
    times: int = 1


@dataclass(frozen=True)
class Pace:
    """The measured rounds, the warm-up passes, and the part of the work done in each."""

    rounds: int
    warm_up_passes: int
    scale: float
    places: tuple[str, ...]


def suite(name: str) -> Suite:
    """Imports a suite when it is used: other suites do not need its libraries."""
    found: Suite = importlib.import_module(f"bench.{name.replace('-', '_')}").SUITE
    return found


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def compare(
    settings: Settings,
    workloads: Sequence[Workload],
    goals: Ratios,
    pace: Pace,
    options: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Table]:
    """A table per place. `options`: more broker properties, by side."""
    chosen = [
        workload
        for workload in workloads
        if settings.wants(workload.name)
        and not (workload.needs_java and KAFKA not in settings.sides)
    ]
    tables = []
    for place in (settings.places or pace.places) if chosen else ():
        say(PLACES[place])
        with (
            directory(place) as base,
            running_sides(list(settings.sides), base, options) as sides,
        ):
            compared = drive(sides, chosen, pace, settings.rounds or pace.rounds)
        tables.append(Table(PLACES[place], rows_of(chosen, compared, goals)))
    return tables


def drive(
    sides: list[Side], workloads: Sequence[Workload], pace: Pace, count: int
) -> list[dict[str, Samples]]:
    """All comparisons of all rounds; the warm-up of both sides comes first and is dropped."""
    # Kafka's tools are separate JVMs and would warm up little but themselves.
    warming = [workload for workload in workloads if not workload.needs_java] or workloads
    for number in range(pace.warm_up_passes):
        say(f"warm-up {number + 1} of {pace.warm_up_passes}")
        for workload in warming:
            for _thrown_away in _in_turns(workload, sides, pace.scale):
                pass
    compared = []
    for number in range(count):
        say(f"round {number + 1} of {count}")
        for workload in workloads:
            for again in range(workload.times):
                order = sides if (number + again) % 2 == 0 else sides[::-1]
                for comparison in _in_turns(workload, order, pace.scale):
                    _tell(comparison)
                    compared.append(comparison)
    return compared


def _in_turns(
    workload: Workload, sides: Sequence[Side], scale: float
) -> Iterator[dict[str, Samples]]:
    """A comparison per part: both sides run it within the same seconds."""
    for measured in zip(*(workload.run(side, scale) for side in sides), strict=True):
        yield {side.name: samples for side, samples in zip(sides, measured, strict=True)}


def _tell(comparison: Mapping[str, Samples]) -> None:
    for side, samples in comparison.items():
        for what, sample in samples.items():
            figures = "  ".join(f"{value:,.4g} {figure}" for figure, value in sample.items())
            say(f"  {side:9} {what:36} {figures}")


def rows_of(
    workloads: Sequence[Workload], compared: Sequence[Mapping[str, Samples]], goals: Ratios
) -> list[Row]:
    """A ratio is the median of the ratios of all comparisons: both sides of one run under the same
    conditions, so the load of other processes affects both. The two absolute figures are medians on
    their own.
    """
    rows = []
    for what in (measure for workload in workloads for measure in workload.measures):
        samples = [{side: found.get(what, {}) for side, found in one.items()} for one in compared]
        figures = dict.fromkeys(f for one in samples for sample in one.values() for f in sample)
        if not figures and compared:
            rows.append(Row(what, "", None, None, None, note="not measured"))
        for figure in figures:
            values: dict[str, list[float]] = {BARNABAS: [], KAFKA: []}
            ratios = []
            for one in samples:
                here = {side: sample[figure] for side, sample in one.items() if figure in sample}
                for side, value in here.items():
                    values[side].append(value)
                if len(here) == len(values) and here[KAFKA]:
                    ratios.append(here[BARNABAS] / here[KAFKA])
            ours, theirs = _median(values[BARNABAS]), _median(values[KAFKA])
            rows.append(
                Row(what, figure, ours, theirs, _median(ratios), goals.get((what, figure)),
                    note="" if values[BARNABAS] else "not measured")
            )  # fmt: skip
    return rows


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
