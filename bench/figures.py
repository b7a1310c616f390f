"""Figures, samples, goals, rows and tables."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A figure passes at or above `least`, or at or below `most`."""

    least: float | None = None
    most: float | None = None

    def holds(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    def __str__(self) -> str:
        return f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"


# A figure is named by its unit, as the tables show it.
RECORDS_PER_S = "records/s"
CPU = "broker CPU µs/record"
P50 = "p50 ms"
P99 = "p99 ms"

# One measurement on one side: figure to value.
Sample = dict[str, float]
# Everything one workload measured on one side: what was measured to its sample.
Samples = dict[str, Sample]
# (what was measured, which figure of it): ours divided by the peer's
Ratios = dict[tuple[str, str], Goal]


@dataclass(frozen=True)
class Row:
    """One line of a table.

    The goal is checked against the ratio, or against our own figure if `plain` is set. `note`
    replaces figures that are not available.
    """

    what: str
    unit: str
    ours: float | None
    theirs: float | None
    ratio: float | None
    goal: Goal | None = None
    plain: bool = False
    note: str = ""

    def verdict(self) -> str:
        judged = self.ours if self.plain else self.ratio
        if self.goal is None or judged is None:
            return ""
        return "pass" if self.goal.holds(judged) else "MISS"


@dataclass(frozen=True)
class Table:
    """Rows under a title, beside one peer."""

    title: str
    rows: Sequence[Row]
    peer: str = "Kafka 4.3.0"
