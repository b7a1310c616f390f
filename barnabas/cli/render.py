"""Rows as a table for people, or as JSON and CSV for scripts."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from barnabas.client.tables import Row, plain, table

F = TypeVar("F", bound=Callable[..., Any])
OUTPUTS = ("table", "json", "jsonl", "csv")


def output_option(command: F) -> F:
    """--output and -J; the command gets `output`."""
    return output_option_of(OUTPUTS, "The output format; use json, jsonl or csv in scripts.")(
        command
    )


def output_option_of(formats: Sequence[str], text: str) -> Callable[[F], F]:
    """The same for a command with other formats."""
    decorate = click.option(
        "--output", type=click.Choice(formats), default="table", show_default=True, help=text
    )
    shorthand = click.option(
        "-J",
        is_flag=True,
        expose_value=False,
        help="The same as --output jsonl.",
        callback=lambda ctx, parameter, value: _choose_jsonl(ctx, value),
    )
    return lambda command: decorate(shorthand(command))


def _choose_jsonl(ctx: click.Context, value: bool) -> None:
    if value:
        ctx.meta["barnabas.jsonl"] = True


def chosen_output(output: str) -> str:
    """--output, unless there was a -J."""
    return "jsonl" if click.get_current_context().meta.get("barnabas.jsonl") else output


def write_document(document: Row, output: str) -> None:
    """One JSON document, over several lines or on one."""
    import json

    click.echo(json.dumps(document, indent=2 if output == "json" else None))


def render(rows: Sequence[Row], columns: Sequence[str], output: str) -> None:
    """`columns` are what a table and CSV show; JSON has all."""
    output = chosen_output(output)
    if output == "json":
        import json

        click.echo(json.dumps(list(rows), indent=2))
    elif output == "jsonl":
        import json

        for row in rows:
            click.echo(json.dumps(row))
    elif output == "csv":
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[plain(row.get(column)) for column in columns] for row in rows])
    else:
        click.echo(table(rows, columns), nl=False)
