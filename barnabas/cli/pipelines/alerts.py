"""`barnabas pipeline alerts`: whether somebody should look at the pipelines of this machine."""

import time
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.pipelines.errors import fails_in_lines
from barnabas.cli.render import chosen_output, output_option, render
from barnabas.client.tables import Row

if TYPE_CHECKING:
    from barnabas.pipeline.run.roster import RosterEntry

_SILENT_S_MAX = 120.0  # a run writes its entry every few seconds


@click.command("alerts")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@output_option
@fails_in_lines
def alerts(names: tuple[str, ...], output: str) -> int:
    """Show what is wrong with the pipelines that run or ran on this machine.

    Exits with 1 if there is an alert: a pipeline has failed or was killed, tries again because
    brokers are unreachable, finishes no batch, or falls behind. Without NAME: all pipelines.
    """
    from barnabas.pipeline.run.roster import entries, entry_of

    chosen = [entry_of(name) for name in names] if names else entries()
    rows: list[Row] = [
        {"name": entry.name, "alert": alert, "detail": said}
        for entry in chosen
        for alert, said in _alerts(entry).items()
    ]
    if not rows and chosen_output(output) == "table":
        click.echo("no alerts", err=True)
        return exits.OK
    render(rows, ["name", "alert", "detail"], output)
    return exits.FAILURE if rows else exits.OK


def _alerts(entry: "RosterEntry") -> dict[str, str]:
    from barnabas.pipeline.run.explain import FAILED, STALLED
    from barnabas.pipeline.run.roster import ENDED, KILLED, RUNNING

    if entry.state == ENDED:
        return {}
    if entry.state == KILLED:
        return {FAILED: "its process was killed: run it again"}
    if entry.state != RUNNING:
        return {FAILED: entry.error or "it has failed"}
    silent_s = time.time() - entry.updated_ms / 1000
    if silent_s > _SILENT_S_MAX:
        said = f"its process, {entry.pid}, has written nothing for {silent_s:.0f} s"
        return {**entry.alerts, STALLED: f"{said}: end it and run it again"}
    return dict(entry.alerts)
