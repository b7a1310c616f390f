"""Bugs to plant in a world, to see that it would notice them.

Each is a context manager named after what it does wrong; its docstring names the hazard, by the
numbers of the list that the simulator was built against, or says what it is like.
"""

from tests.simulator.bugs import (
    controllers,
    groups,
    leaders,
    producers,
    shares,
    storage,
    transactions,
)
from tests.simulator.bugs.planting import BUGS, Bug

__all__ = [
    "BUGS",
    "Bug",
    "controllers",
    "groups",
    "leaders",
    "producers",
    "shares",
    "storage",
    "transactions",
]
