"""Commands that take something away ask first; where nobody can be asked, they want -y."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    """-y; the command gets `yes`, and asks with `confirm` where it was not given."""
    return click.option(
        "-y",
        "--yes",
        is_flag=True,
        help="Do not ask for confirmation; required without a terminal.",
    )(command)


def require_answer(yes: bool) -> None:
    """Refuses before anything is looked at: a script must not hang, nor change what it may not."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is no terminal, so nobody can be asked: say -y to go ahead without"
        )


def confirm(what: str, yes: bool) -> None:
    if not yes:
        click.confirm(f"{what}?", abort=True, err=True)
