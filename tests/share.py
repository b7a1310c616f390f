"""How much of what could be tried is tried: a share in `make check`, all of it in `make test`.

`IN_FULL=1` asks for all. What is left to chance begins with `SEED`, the same each time unless it is
given: a failure can be had again, and a change is to blame for it.
"""

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

IN_FULL = bool(os.environ.get("IN_FULL"))
SEED = int(os.environ.get("SEED", "1"))
_PART = 10
STRIDE = 1 if IN_FULL else 5  # of the steps at which a crash is tried


def examples(count: int) -> int:
    """How many of so many random examples."""
    return count if IN_FULL else max(1, count // _PART)


def some(places: range) -> range:
    """Those of all places that are tried, the first and the last among them."""
    if IN_FULL or len(places) <= _PART:
        return places
    step = next(step for step in range(_PART, 0, -1) if (len(places) - 1) % step == 0)
    return places[::step]


def share_of(cases: Iterable[T]) -> list[T]:
    """Of planted bugs, for example: every fifth."""
    return list(cases) if IN_FULL else list(cases)[::STRIDE]


def run_seeds(run: Callable[[int], object], seeds: range) -> None:
    """Runs each seed; the error of a failed run names its seed."""
    for seed in seeds:
        try:
            run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
