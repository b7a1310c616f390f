"""`barnabas group watch`: a group as it changes, until interrupted.

On a terminal the description is redrawn; otherwise each change is one line.
"""

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.groups.arguments import find_group, group_argument
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.render import chosen_output, output_option
from barnabas.model.times import iso_time
from barnabas.model.words import printable

if TYPE_CHECKING:
    from barnabas.client.groups.report import GroupReport

HOME_AND_CLEAR = "\x1b[H\x1b[J"
PACE_MS_MAX = 60_000
CSV_COLUMNS = ("time_ms", "group", "state", "generation", "members", "lag", "lag_ms", "catch_up_ms")


def _check_interval(ctx: click.Context, parameter: click.Parameter, value: float) -> float:
    if value != value:  # no range keeps "nan" out
        raise click.BadParameter("expected a number of seconds")
    return value


@click.command()
@group_argument
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(0.1, 3_600),
    default=2.0,
    show_default=True,
    callback=_check_interval,
    help="Seconds between two updates.",
)
@output_option
@cluster_options
@click.pass_context
def watch(ctx: click.Context, group: str, interval: float, output: str) -> None:
    """Watch a group: a live view on a terminal, else one line per change."""
    from barnabas.client.groups.report import with_pace
    from barnabas.model.errors import Retriable

    output = chosen_output(output)
    live = output == "table" and sys.stdout.isatty()
    first: tuple[float, GroupReport] | None = None
    shown: dict[str, Any] = {}
    with open_admin(ctx) as admin:
        report = find_group(admin, group)
        while True:
            now = time.monotonic()
            if first is None or (now - first[0]) * 1000 > PACE_MS_MAX:
                first = (now, report)
            else:
                report = with_pace(report, first[1], round((now - first[0]) * 1000))
            if live:
                _draw(report)
            else:
                shown = _tell(report, shown, output)
            time.sleep(interval)
            try:
                report = find_group(admin, group)
            except Retriable as problem:
                click.echo(f"barnabas: {problem.detail}", err=True)


def _draw(report: "GroupReport") -> None:
    from barnabas.client.groups.diagnosis import diagnose
    from barnabas.client.groups.text import description

    text = description(report)
    for finding in diagnose(report):
        text += f"\n{finding.severity.value}: {finding.name}: {printable(finding.text)}\n"
    lines = f"{iso_time(report.now_ms)}\n{text}".splitlines()
    height = shutil.get_terminal_size().lines - 1
    click.echo(HOME_AND_CLEAR + "\n".join(lines[:height]))


def _tell(report: "GroupReport", shown: dict[str, Any], output: str) -> dict[str, Any]:
    """A line if anything is new, and the state to compare with next time."""
    from barnabas.client.groups.text import headline, rebalance, rebalance_document

    new = [
        entry
        for entry in report.rebalances
        if shown and not entry.under_way and entry.began_ms > shown["last_ms"]
    ]
    finished = [entry.began_ms for entry in report.rebalances if not entry.under_way]
    state = {
        "state": report.state,
        "generation": report.generation,
        "members": [member.id for member in report.members],
        "lag": report.lag,
        "last_ms": max(finished, default=0),
    }
    if state == shown:
        return shown
    if output == "table":
        why = "".join(f"; {rebalance(entry, report)}" for entry in new)
        click.echo(f"{iso_time(report.now_ms)} {headline(report)}{why}")
    else:
        line = {
            "time_ms": report.now_ms,
            "group": report.group,
            **{name: value for name, value in state.items() if name != "last_ms"},
            "lag_ms": report.unread_ms,
            "catch_up_ms": report.catch_up_ms,
            "rebalances": [rebalance_document(entry) for entry in new],
        }
        _write(line, output, first=not shown)
    sys.stdout.flush()
    return state


def _write(line: dict[str, Any], output: str, *, first: bool) -> None:
    if output == "csv":
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        if first:
            writer.writerow(CSV_COLUMNS)
        writer.writerow([{**line, "members": len(line["members"])}[name] for name in CSV_COLUMNS])
    else:
        import json

        click.echo(json.dumps(line))
