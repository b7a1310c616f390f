"""`barnabas pipeline ls|status|stop`: the pipelines of this machine."""

import time
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.pipelines.errors import fails_in_lines, report
from barnabas.cli.render import chosen_output, output_option, render, write_document
from barnabas.client.tables import Row

if TYPE_CHECKING:
    from barnabas.pipeline.run.roster import RosterEntry

_COLUMNS = ["name", "kind", "state", "pid", "batches", "rows", "rows_per_s", "lag", "since"]


@click.command("ls")
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that have ended.")
@output_option
def ls(everything: bool, output: str) -> int:
    """List the pipelines that run on this machine."""
    from dataclasses import asdict

    from barnabas.pipeline.run.roster import RUNNING, entries

    found = [entry for entry in entries() if everything or entry.state == RUNNING]
    rows: list[Row] = [{**asdict(entry), "since": _ago(entry.started_ms)} for entry in found]
    if not rows and chosen_output(output) == "table":
        click.echo("no pipeline runs here", err=True)
        return exits.OK
    render(rows, _COLUMNS, output)
    return exits.OK


@click.command("status")
@click.argument("name")
@output_option
@fails_in_lines
def status(name: str, output: str) -> int:
    """Show the progress of a pipeline, and the paths of its files.

    Exits with 1 if it has failed or was killed.
    """
    from dataclasses import asdict

    from barnabas.pipeline.run.roster import ENDED, RUNNING, entry_of

    entry = entry_of(name)
    if chosen_output(output) == "table":
        for line in _lines(entry):
            click.echo(line)
    else:
        write_document(asdict(entry), chosen_output(output))
    return exits.OK if entry.state in (RUNNING, ENDED) else exits.FAILURE


def _lines(entry: "RosterEntry") -> list[str]:
    from barnabas.pipeline.run.roster import RUNNING

    if entry.state == RUNNING:
        state = f"running for {_ago(entry.started_ms)}, process {entry.pid}"
    else:
        state = f"{entry.state} {_ago(entry.updated_ms)} ago"
        state += f": {entry.error}" if entry.error else ""
    lag = "" if entry.lag is None else f", {entry.lag} behind"
    found = {
        entry.name: f"{entry.kind}, {state}",
        "progress": f"{entry.batches} batches, {entry.rows} rows{lag}",
        "last batch": f"{entry.rows_per_s} rows/s, {entry.batch_ms} ms,"
        f" {_ago(entry.updated_ms)} ago",
        "group": f"{entry.group} at {entry.servers}",
        "spec": entry.spec,
        "checkpoint": entry.checkpoint or "none: a mirror's progress is in its target",
        "master": entry.master,
        "metrics": entry.metrics or "none: run it with --metrics HOST:PORT",
    }
    width = max(map(len, found))
    return [f"{name.ljust(width)}  {value}" for name, value in found.items()]


@click.command("stop")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--timeout", type=click.FloatRange(0.1, 86_400), default=90.0, show_default=True,
    help="Seconds to wait for the current batch.",
)  # fmt: skip
def stop_(names: tuple[str, ...], timeout: float) -> int:
    """Stop pipelines, each after its current batch."""
    from barnabas.pipeline.errors import PipelineError
    from barnabas.pipeline.run.roster import RUNNING, entry_of, stop

    worst = exits.OK
    for name in names:
        try:
            if entry_of(name).state != RUNNING:
                click.echo(f"{name} was not running", err=True)
                continue
            ended = stop(name, timeout)
            click.echo(f"{name} {ended.state} after {ended.batches} batches, {ended.rows} rows")
        except PipelineError as problem:
            worst = max(worst, report(problem))
    return worst


def _ago(then_ms: int) -> str:
    seconds = max(int(time.time() - then_ms / 1000), 0)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
