"""Tables on the terminal, and a section per suite in `docs/BENCHMARKS.md`.

Always: writing one suite's section leaves the others as they are.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from bench.figures import Row, Table

HEAD = (
    "# Benchmarks\n\n"
    "`make bench` writes this page, one section per suite. Run it on your own machine before you "
    "rely on any figure here.\n"
)
_MARKER = re.compile(r"^<!-- suite: (\S+) -->\n", re.MULTILINE)


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.3g}x"
    goal = "" if row.goal is None else str(row.goal) + ("" if row.plain else "x")
    return (row.what, row.unit, _figure(row.ours), _figure(row.theirs), ratio, goal,
            row.verdict() or row.note)  # fmt: skip


def _headings(table: Table) -> tuple[str, ...]:
    return ("", "unit", "Barnabas", table.peer, "ratio", "goal", "")


def print_table(table: Table) -> None:
    shown = RichTable(*_headings(table), title=table.title, title_justify="left")
    for row in table.rows:
        colour = {"pass": "green", "MISS": "bold red"}.get(row.verdict(), "")
        shown.add_row(*_cells(row), style=colour)
    Console(width=None if Console().is_terminal else 140).print(shown)


def summary(tables: Sequence[Table]) -> str:
    """How many goals were reached, and by name those that were not."""
    judged = [(table, row) for table in tables for row in table.rows if row.verdict()]
    missed = [
        f"  MISS  {table.title}: {row.what}, {row.unit}: "
        f"{_figure(row.ours) if row.plain else _cells(row)[4]}, goal {_cells(row)[5]}"
        for table, row in judged
        if row.verdict() == "MISS"
    ]
    if not judged:
        return "goals: none was checked"
    reached = f"goals: {len(judged) - len(missed)} of {len(judged)} reached"
    return "\n".join([reached + (f", {len(missed)} missed:" if missed else ""), *missed])


def _markdown_table(table: Table) -> str:
    lines = ["| " + " | ".join(cell or " " for cell in _headings(table)) + " |"]
    lines.append("|---|---|---:|---:|---:|---|---|")
    lines.extend("| " + " | ".join(_cells(row)) + " |" for row in table.rows)
    return f"### {table.title}\n\n" + "\n".join(lines)


def section(
    title: str, tables: Sequence[Table], machine: Mapping[str, str], date: str, how: str
) -> str:
    described = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    parts = [f"## {title}", f"Measured on {date}.\n\n{described}", how]
    return "\n\n".join([*parts, *map(_markdown_table, tables)]) + "\n"


def sections_in(text: str) -> dict[str, str]:
    """The sections by suite, as they were written."""
    _, *parts = _MARKER.split(text)
    return {
        name: body.strip("\n") + "\n" for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def write_section(path: Path, name: str, body: str, order: Sequence[str]) -> None:
    """Replace one suite's section; the others stay as they are."""
    found = sections_in(path.read_text()) if path.exists() else {}
    found[name] = body
    names = [*(known for known in order if known in found), *(n for n in found if n not in order)]
    path.write_text(
        "\n".join([HEAD, *(f"<!-- suite: {each} -->\n{found[each]}" for each in names)])
    )
