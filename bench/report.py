"""Turns samples into rows, a table on the terminal and `docs/BENCHMARKS.md`.

A ratio is the median of the rounds' own ratios: both sides of a round met the same machine, so a
neighbour's burst falls on both. The two absolute figures are medians of their own.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.goals import CPU, P50, P99, RATIOS, RECORDS_PER_S, Goal
from bench.resources import Cost
from bench.sides import BARNABAS, KAFKA
from bench.workloads import Sample, Samples, Workload

# One round: side name to what was measured on it.
Round = Mapping[str, Samples]

UNITS = {
    RECORDS_PER_S: "records/s",
    CPU: "broker CPU µs/record",
    P50: "p50 ms",
    P99: "p99 ms",
}


@dataclass(frozen=True)
class Row:
    """One line of the table. `note` stands in for figures that could not be had."""

    what: str
    unit: str
    ours: float | None
    theirs: float | None
    ratio: float | None
    goal: Goal | None
    judged: float | None
    note: str = ""

    def verdict(self) -> str:
        if self.goal is None or self.judged is None:
            return ""
        return "pass" if self.goal.holds(self.judged) else "MISS"


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def workload_rows(workloads: Sequence[Workload], rounds: Sequence[Round]) -> list[Row]:
    rows = []
    for what in (measure for workload in workloads for measure in workload.measures):
        found = False
        for figure in (field.name for field in fields(Sample)):
            values: dict[str, list[float]] = {BARNABAS: [], KAFKA: []}
            ratios = []
            for one in rounds:
                here = {
                    side: value
                    for side, samples in one.items()
                    if (value := getattr(samples.get(what, Sample()), figure)) is not None
                }
                for side, value in here.items():
                    values[side].append(value)
                if len(here) == len(values) and here[KAFKA]:
                    ratios.append(here[BARNABAS] / here[KAFKA])
            if any(values.values()):
                found = True
                ratio = _median(ratios)
                rows.append(
                    Row(what, UNITS[figure], _median(values[BARNABAS]), _median(values[KAFKA]),
                        ratio, RATIOS.get((what, figure)), ratio,
                        "" if values[BARNABAS] else _absent(what))
                )  # fmt: skip
        if not found and rounds:
            rows.append(Row(what, "", None, None, None, None, None, _absent(what)))
    return rows


def _absent(what: str) -> str:
    return "needs consumer groups" if what.startswith("ConsumerPerformance") else "not measured"


def cost_rows(costs: Sequence[Cost]) -> list[Row]:
    rows = []
    for cost in costs:
        ours, theirs = cost.by_side.get(BARNABAS), cost.by_side.get(KAFKA)
        ratio = ours / theirs if ours is not None and theirs else None
        rows.append(Row(cost.what, cost.unit, ours, theirs, ratio, cost.goal, ours))
    return rows


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.3g}x"
    goal = "" if row.goal is None else str(row.goal)
    if goal and row.unit in UNITS.values():  # only those goals are ratios
        goal += "x"
    return (row.what, row.unit, _figure(row.ours), _figure(row.theirs), ratio, goal,
            row.verdict() or row.note)  # fmt: skip


HEADINGS = ("", "unit", "Barnabas", "Kafka 4.3.0", "ratio", "goal", "")


def print_table(title: str, rows: Sequence[Row]) -> None:
    table = Table(*HEADINGS, title=title, title_justify="left")
    for row in rows:
        colour = {"pass": "green", "MISS": "bold red"}.get(row.verdict(), "")
        table.add_row(*_cells(row), style=colour)
    Console(width=None if Console().is_terminal else 140).print(table)


def _markdown_table(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(cell or " " for cell in HEADINGS) + " |"]
    lines.append("|---|---|---:|---:|---:|---|---|")
    lines.extend("| " + " | ".join(_cells(row)) + " |" for row in rows)
    return "\n".join(lines)


def write_markdown(
    path: Path,
    tables: Mapping[str, Sequence[Row]],
    machine: Mapping[str, str],
    date: str,
    how: str,
) -> None:
    described = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    parts = [
        "# Benchmarks",
        "Written by `make bench`; run it on your own machine before you believe any figure here.",
        f"Measured on {date}.\n\n{described}",
        how,
        *(f"## {title}\n\n{_markdown_table(rows)}" for title, rows in tables.items()),
    ]
    path.write_text("\n\n".join(parts) + "\n")
