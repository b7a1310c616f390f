"""Charts as SVG, made on the server: points of a line, cells of a heat map.

In: numbers. Out: coordinates and classes for templates; no HTML.
"""

from collections.abc import Sequence
from typing import NamedTuple

CELLS_MAX = 512
STEPS = 6  # of colour
WIDTH, HEIGHT = 240, 40


class HeatCell(NamedTuple):
    """`step` 0 is nothing, STEPS - 1 the most."""

    label: str
    value: float
    step: int
    x: int
    y: int


def points(values: Sequence[float], width: int = WIDTH, height: int = HEIGHT) -> str:
    """Of a polyline from 0 to the largest value."""
    if len(values) < 2:
        return ""
    top = max(*values, 1e-9)
    step = width / (len(values) - 1)
    return " ".join(
        f"{at * step:.1f},{height - 2 - value / top * (height - 4):.1f}"
        for at, value in enumerate(values)
    )


def heat_cells(
    labels: Sequence[str], values: Sequence[float], columns: int = 64, size: int = 12
) -> list[HeatCell]:
    """One cell each, or bins with the largest of their values if there are too many."""
    if len(values) > CELLS_MAX:
        width = -(-len(values) // CELLS_MAX)
        starts = range(0, len(values), width)
        labels = [f"{labels[i]} to {labels[min(i + width, len(labels)) - 1]}" for i in starts]
        values = [max(values[i : i + width]) for i in starts]
    top = max(values, default=0)
    return [
        HeatCell(
            label,
            value,
            0 if not value or not top else min(STEPS - 1, 1 + int(value / top * (STEPS - 2))),
            at % columns * size,
            at // columns * size,
        )
        for at, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
