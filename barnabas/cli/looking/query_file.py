"""Where the result of `barnabas sql` goes: a file, or standard output.

Always: a file appears under its name when it is complete; a query that fails leaves none.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper

import click

from barnabas.cli import exits
from barnabas.cli.render import OUTPUTS

BINARY = ("arrow", "parquet")
FORMATS = (*OUTPUTS, *BINARY)
_ENDINGS = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".arrow": "arrow",
            ".parquet": "parquet"}  # fmt: skip


def format_of(path: str) -> str:
    """From the ending of the name."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in _ENDINGS:
        raise click.UsageError(
            f"--output-file {path}: the name does not say which format: end it in"
            f" {', '.join(_ENDINGS)}, or add --output"
        )
    return _ENDINGS[ending]


def check_terminal(output: str) -> None:
    if output in BINARY and sys.stdout.isatty():
        raise click.UsageError(
            f"--output {output} is not for a terminal: add --output-file FILE, or redirect it"
        )


@contextmanager
def own_stdout() -> Iterator[int]:
    """A descriptor of standard output that a worker can inherit beside its own."""
    fd = os.dup(sys.stdout.fileno())
    try:
        yield fd
    finally:
        os.close(fd)


def into_file(path: str, write: Callable[[int], int]) -> int:
    """`write` gets the descriptor of the file, which is also its standard output."""
    unfinished = f"{path}.unfinished"
    try:
        with open(unfinished, "wb") as file:
            text = TextIOWrapper(file, encoding="utf-8", write_through=True)
            with redirect_stdout(text):
                code = write(file.fileno())
            text.flush()
        if code == exits.OK:
            os.replace(unfinished, path)
        return code
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror or problem}") from None
    finally:
        with suppress(OSError):
            os.unlink(unfinished)
