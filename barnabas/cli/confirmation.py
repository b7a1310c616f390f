"""Commands that delete something ask for confirmation first; without a terminal they require -y."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    """The option -y. The command gets `yes`, and calls `confirm` if it was not given."""
    return click.option(
        "-y",
        "--yes",
        is_flag=True,
        help="Do not ask for confirmation; required without a terminal.",
    )(command)


def require_answer(yes: bool) -> None:
    """Refuses before any request is sent: a script must not hang, nor change anything
    without -y.
    """
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is not a terminal: use -y to continue without confirmation"
        )


def confirm(what: str, yes: bool) -> None:
    if not yes:
        click.confirm(f"{what}?", abort=True, err=True)
