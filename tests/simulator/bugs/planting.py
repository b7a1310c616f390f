"""How a bug is planted, and where all of them are listed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class Bug:
    """`planted()` puts it into the program until the block ends."""

    name: str
    hazard: str
    planted: Callable[[], AbstractContextManager[object]]
    brokers: int | None
    first_seed: int
    transactions: bool
    shares: bool
    outages: bool


BUGS: dict[str, Bug] = {}

Change = tuple[Any, str, Any]
"""An object, the name of one of its attributes, and what it becomes."""


def bug(
    *,
    brokers: int | None = 3,
    first_seed: int = 0,
    transactions: bool = False,
    shares: bool = False,
    outages: bool = False,
) -> Callable[[Callable[[], list[Change]]], Callable[[], list[Change]]]:
    """For a function that says what to change; its docstring says what goes wrong."""

    def add(changes: Callable[[], list[Change]]) -> Callable[[], list[Change]]:
        @contextmanager
        def planted() -> Iterator[None]:
            with ExitStack() as patches:
                for target, name, value in changes():
                    patches.enter_context(patch.object(target, name, value))
                yield

        name = changes.__name__
        assert changes.__doc__, f"{name}: say what goes wrong"
        BUGS[name] = Bug(
            name, changes.__doc__, planted, brokers, first_seed, transactions, shares, outages
        )
        return changes

    return add
