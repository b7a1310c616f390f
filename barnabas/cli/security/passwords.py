"""Where a command gets a password from: a prompt, a file, standard input, or a new random one.

Always: never from an argument, which every user of the machine can read.
"""

import sys
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
GENERATED_BYTES = 24
_LENGTH_MAX = 1_024


def password_options(command: F) -> F:
    """--password-file, --password-stdin and --generate; the command gets `password_file`,
    `password_stdin` and `generate`."""
    for option in (
        click.option(
            "--generate", is_flag=True, help="Generate a random password and print it once."
        ),
        click.option("--password-stdin", is_flag=True, help="Read it from standard input."),
        click.option(
            "--password-file",
            type=click.Path(exists=True, dir_okay=False),
            help="Read it from this file. [default: ask for it]",
        ),
    ):
        command = option(command)
    return command


def password_from(
    user: str, password_file: str | None, password_stdin: bool, generate: bool
) -> str:
    if sum((password_file is not None, password_stdin, generate)) > 1:
        raise click.UsageError(
            "--password-file, --password-stdin and --generate exclude each other"
        )
    if generate:
        return token_urlsafe(GENERATED_BYTES)
    if password_file is not None:
        try:
            with open(password_file, encoding="utf-8") as file:
                text = file.read(_LENGTH_MAX + 3)
        except UnicodeDecodeError:
            raise click.UsageError(f"--password-file {password_file}: it is not UTF-8") from None
        return _checked(text)
    if password_stdin:
        return _checked(sys.stdin.read(_LENGTH_MAX + 3))
    if not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is not a terminal: use --password-stdin, --password-file or --generate"
        )
    prompted: str = click.prompt(
        f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True
    )
    return _checked(prompted)


def _checked(text: str) -> str:
    password = text.removesuffix("\n").removesuffix("\r")
    if not 0 < len(password) <= _LENGTH_MAX or "\0" in password:
        raise click.UsageError(f"a password has 1 to {_LENGTH_MAX} characters, and no NUL")
    return password
