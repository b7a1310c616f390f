"""Bugs to plant in a world, to see that it would notice them. Each is named after what it does."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """`planted()` puts it into the program until the block ends."""

    hazard: str
    planted: Callable[[], AbstractContextManager[object]]
    brokers: int | None = None
    first_seed: int = 0


BUGS: dict[str, Bug] = {}
