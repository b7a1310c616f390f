"""`barnabas dlq`: shows the records of dead-letter topics, and sends them back."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.names import complete_topic
from barnabas.cli.options import cluster_options, open_cluster
from barnabas.cli.render import output_option, render
from barnabas.cli.topic import find_topic
from barnabas.client.tables import Row
from barnabas.model.times import parse_time

if TYPE_CHECKING:
    from barnabas.client.workers.dead_letters import Filter

F = TypeVar("F", bound=Callable[..., Any])
_SHOWN_MAX = 60
_READ = {"auto.offset.reset": "earliest"}


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """List dead-letter topics, show their records, send them back."""


def filter_options(command: F) -> F:
    """Which letters; the command gets `wanted`."""
    for option in (
        click.option(
            "--until",
            metavar="TIME",
            help="Only letters written before this time (milliseconds or ISO 8601).",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="Only letters written at or after this time (milliseconds or ISO 8601).",
        ),
        click.option(
            "--cause",
            metavar="TEXT",
            help="Only letters whose cause contains this text (case is ignored).",
        ),
        click.option("--group", metavar="GROUP", help="Only letters of this consumer group."),
        click.option(
            "--origin",
            metavar="TOPIC[:PARTITION[:OFFSET]]",
            help="Only letters whose original record is from this topic, partition or offset.",
        ),
        click.option("--offset", type=click.IntRange(0), help="Only the letter at this offset."),
        click.option(
            "-p",
            "--partition",
            "partitions",
            type=click.IntRange(0),
            multiple=True,
            help="Only this partition; repeat the option for several. [default: all]",
        ),
    ):
        command = option(command)
    return command


@command.command("ls")
@click.option(
    "--max-left",
    type=click.IntRange(0),
    help=f"Exit with {exits.ASSERTION} if a topic has more letters that were not redriven.",
)
@output_option
@cluster_options
@click.pass_context
def list_(ctx: click.Context, max_left: int | None, output: str) -> int:
    """List dead-letter topics, known by their names or by the headers of their last records."""
    from barnabas.client.blocking.net import run
    from barnabas.client.workers.dead_letters import DeadLetters
    from barnabas.client.workers.letter_rows import summary_row

    with open_cluster(ctx, _READ) as cluster:
        rows = [summary_row(one) for one in run(DeadLetters(cluster).summaries())]
    columns = ["topic", "letters", "redriven", "left", "last_time", "last_cause"]
    render(_shown(ctx, rows, output), columns, output)
    if max_left is not None and any(row["left"] > max_left for row in rows):
        return exits.ASSERTION
    return exits.OK


@command.command()
@click.argument("topic", shell_complete=complete_topic)
@filter_options
@click.option("-c", "--count", type=click.IntRange(1), help="At most this many.")
@output_option
@cluster_options
@click.pass_context
def show(ctx: click.Context, /, topic: str, count: int | None, output: str, **options: Any) -> None:
    """Show dead letters: the original record, the cause of the failure, the number of attempts."""
    from contextlib import aclosing

    from barnabas.client.blocking.admin import Admin
    from barnabas.client.blocking.net import run
    from barnabas.client.workers.dead_letters import DeadLetters
    from barnabas.client.workers.letter_rows import letter_row

    wanted = _filter(options)
    rows: list[Row] = []

    async def gather() -> None:
        async with aclosing(DeadLetters(cluster).letters(topic, wanted)) as letters:
            async for letter in letters:
                rows.append(letter_row(letter))
                if len(rows) == count:
                    return

    with open_cluster(ctx, _READ) as cluster:
        find_topic(Admin(cluster=cluster), topic)
        run(gather())
    columns = ["at", "time", "group", "origin", "attempts", "cause", "key", "value", "redriven"]
    render(_shown(ctx, rows, output), columns, output)


@command.command()
@click.argument("topic", shell_complete=complete_topic)
@filter_options
@click.option(
    "--to", metavar="TOPIC", help="Send them to this topic instead of their original topic."
)
@click.option("-c", "--count", type=click.IntRange(1), help="At most this many.")
@click.option("--dry-run", is_flag=True, help="Show which letters would be sent, send none.")
@output_option
@cluster_options
@click.pass_context
def redrive(
    ctx: click.Context,
    /,
    topic: str,
    to: str | None,
    count: int | None,
    dry_run: bool,
    output: str,
    **options: Any,
) -> None:
    """Send dead letters back to their original topic; no letter is sent twice.

    The topic barnabas.redrives records what was sent. The next redrive finishes one that was
    interrupted.
    """
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.blocking.net import run
    from barnabas.client.workers.dead_letters import DeadLetters
    from barnabas.client.workers.letter_rows import redrive_plan

    wanted = _filter(options)
    with open_cluster(ctx, _READ) as cluster:
        admin = Admin(cluster=cluster)
        find_topic(admin, topic)
        if to is not None:
            find_topic(admin, to)
        dead = DeadLetters(cluster)
        plan = run(redrive_plan(dead, topic, wanted, to, count))
        sent = 0
        if not dry_run:
            with _Progress(plan["letters"]) as progress:
                sent = run(dead.redrive(topic, wanted, to=to, limit=count, progress=progress.at))
    row: Row = {"topic": topic, **plan, "redriven": sent, "dry_run": dry_run}
    columns = ["topic", "letters", "redriven", "before", "no_origin", "no_record", "dry_run"]
    render([row], columns, output)


class _Progress:
    """A progress line on standard error."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._shown = sys.stderr.isatty() and total > 0

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\033[K", err=True, nl=False)

    def at(self, count: int) -> None:
        if self._shown:
            width = 30
            done = min(width, width * count // self._total)
            bar = "━" * done + "╌" * (width - done)
            click.echo(f"\r  redriving {bar} {count}/{self._total}", err=True, nl=False)


def _filter(options: dict[str, Any]) -> "Filter":
    from barnabas.client.workers.dead_letters import Filter

    return Filter(
        partitions=options["partitions"],
        offset=options["offset"],
        origin=options["origin"],
        group=options["group"],
        cause=options["cause"],
        since_ms=_time("--since", options["since"]),
        until_ms=_time("--until", options["until"]),
    )


def _time(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError as problem:
        raise click.UsageError(f"{option} {problem}") from None


def _shown(ctx: click.Context, rows: list[Row], output: str) -> list[Row]:
    """Text for a table: short, and without control characters."""
    if output != "table" or "barnabas.jsonl" in ctx.meta:
        return rows
    return [{name: _short(value) for name, value in row.items()} for row in rows]


def _short(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    line = "".join(c if c.isprintable() else "·" for c in value)
    return line if len(line) <= _SHOWN_MAX else f"{line[: _SHOWN_MAX - 1]}…"
