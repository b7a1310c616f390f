"""Rows as a table in plain text."""

from collections.abc import Sequence
from typing import Any

from barnabas.model.words import printable

Row = dict[str, Any]


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[column.upper().replace("_", " ") for column in columns]]
    cells += [[printable(plain(row.get(column))) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    right = [
        bool(rows) and all(isinstance(row.get(column), int) for row in rows) for column in columns
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join(lines) + "\n"


def plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
