"""`barnabas group`: list, describe, watch, explain, seek, undo, delete."""

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.confirmation import confirm, require_answer, yes_option
from barnabas.cli.groups.arguments import find_group, group_argument, groups_argument
from barnabas.cli.groups.seek import seek, undo
from barnabas.cli.groups.watch import watch
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.render import chosen_output, output_option, render, write_document
from barnabas.client.groups.targets import KEPT_SUFFIXES
from barnabas.model.errors import Code, KafkaError

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.groups.report import GroupReport

LOOK_AGAIN_MS = 2_000


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """List, describe, watch and explain consumer groups; move their offsets."""


command.add_command(watch)
command.add_command(seek)
command.add_command(undo)


@command.command("ls")
@click.option(
    "-a",
    "--all",
    "every",
    is_flag=True,
    help="Also list the groups that hold saved offsets for `undo`.",
)
@output_option
@cluster_options
@click.pass_context
def list_(ctx: click.Context, every: bool, output: str) -> None:
    """List groups, with their members and lag."""
    from barnabas.client.groups.text import summary_row

    with open_admin(ctx) as admin:
        summaries = admin.group_summaries()
    rows = [
        summary_row(summary)
        for summary in summaries
        if every or not summary.listing.group.endswith(KEPT_SUFFIXES)
    ]
    render(rows, ["group", "state", "type", "members", "lag"], output)


@command.command()
@group_argument
@click.option(
    "--max-lag",
    type=click.IntRange(0),
    help=f"Exit with {exits.ASSERTION} if a partition has more unread records than this;"
    " where nothing is committed, all records count.",
)
@output_option
@cluster_options
@click.pass_context
def describe(ctx: click.Context, group: str, max_lag: int | None, output: str) -> int:
    """Show a group: state, members, what each owns, lag, time to catch up, last rebalances."""
    from barnabas.cli.groups.offsets_topic import offsets_partition
    from barnabas.client.groups.text import PARTITION_COLUMNS, description, document, partition_row

    with open_admin(ctx) as admin:
        report = find_group(admin, group)
        offsets_in = offsets_partition(admin, group)
    output = chosen_output(output)
    if output == "table":
        click.echo(description(report, offsets_in), nl=False)
    elif output == "csv":
        rows = [partition_row(partition) for partition in report.partitions]
        render(rows, PARTITION_COLUMNS, output)
    else:
        write_document({**document(report), "offsets_partition": offsets_in}, output)
    if max_lag is None or (report.lag_max <= max_lag and not report.is_unknown):
        return exits.OK
    if report.is_unknown:
        what = f"the lag of group {group!r} is unknown: it has no members and committed nothing"
    else:
        worst = max(report.partitions, key=lambda partition: partition.lag)
        yet = " and no commit yet" if worst.no_commit_yet else ""
        what = f"{worst.at} of group {group!r} has {worst.lag} unread records{yet}, more than"
        what += f" {max_lag}"
    click.echo(f"barnabas: {what}", err=True)
    return exits.ASSERTION


@command.command()
@group_argument
@output_option
@cluster_options
@click.pass_context
def explain(ctx: click.Context, group: str, output: str) -> None:
    """Say what is wrong with a group, if anything, and what to change."""
    from barnabas.client.groups.diagnosis import diagnose
    from barnabas.client.groups.text import findings_document, findings_text

    with open_admin(ctx) as admin:
        report = _looked_twice(admin, find_group(admin, group))
    findings = diagnose(report)
    output = chosen_output(output)
    if output == "table":
        click.echo(findings_text(report, findings), nl=False)
    elif output == "csv":
        rows: list[dict[str, Any]] = findings_document(report, findings)["findings"]
        render(rows, ["name", "severity", "text", "remedy"], output)
    else:
        write_document(findings_document(report, findings), output)


def _looked_twice(admin: "Admin", first: "GroupReport") -> "GroupReport":
    """Whether lag grows can be seen only by looking again, unless the broker has watched."""
    import time

    from barnabas.client.groups.report import with_pace

    if not first.lag or any(partition.pace for partition in first.partitions):
        return first
    began = time.monotonic_ns()
    time.sleep(LOOK_AGAIN_MS / 1000)
    second = admin.group_report(first.group)
    return with_pace(second, first, (time.monotonic_ns() - began) // 1_000_000)


@command.command()
@groups_argument
@yes_option
@click.option("--if-exists", is_flag=True, help="Succeed if the group does not exist.")
@cluster_options
@click.pass_context
def delete(ctx: click.Context, groups: tuple[str, ...], yes: bool, if_exists: bool) -> None:
    """Delete groups without members, with all their offsets, for good."""
    require_answer(yes)
    with open_admin(ctx) as admin:
        for group in groups:
            try:
                admin.describe_group(group)
                confirm(f"delete group {group} and its offsets", yes)
                admin.delete_group(group)
            except KafkaError as problem:
                if problem.code is not Code.GROUP_ID_NOT_FOUND or not if_exists:
                    raise
                continue
            for suffix in KEPT_SUFFIXES:
                _delete_if_there(admin, group + suffix)
            click.echo(f"group {group} is deleted", err=True)


def _delete_if_there(admin: "Admin", group: str) -> None:
    try:
        admin.delete_group(group)
    except KafkaError as problem:
        if problem.code is not Code.GROUP_ID_NOT_FOUND:
            raise
