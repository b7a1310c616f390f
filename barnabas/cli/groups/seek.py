"""`barnabas group seek` and `undo`: move the offsets of a group that has no members.

Not here: how they are moved, and how undo works (client/groups/seek.py).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from barnabas.cli.confirmation import confirm, require_answer, yes_option
from barnabas.cli.groups.arguments import group_argument
from barnabas.cli.groups.targets import parse_target
from barnabas.cli.options import cluster_options, open_cluster
from barnabas.cli.render import chosen_output, output_option, render
from barnabas.client.tables import Row
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin as AdminFlows
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.groups.seek import Step


@click.command()
@group_argument
@click.option(
    "--to",
    "to",
    required=True,
    metavar="PLACE",
    help="earliest, latest, OFFSET, a TIME (2026-01-31T12:00:00, or @ and milliseconds), or a FILE"
    " (- is standard input) of offsets: CSV as topic,partition,offset or JSON.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="TOPIC[:P,...]",
    multiple=True,
    help="Only these topics or partitions, also without committed "
    "offsets.  [default: all it has committed]",
)
@yes_option
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@output_option
@cluster_options
@click.pass_context
def seek(
    ctx: click.Context,
    group: str,
    to: str,
    topics: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Set the committed offsets of a group without members; `undo` restores them."""
    require_answer(yes or dry_run)
    try:
        target = parse_target(to, group)
    except ValueError as problem:
        raise click.UsageError(f"--to {problem}") from None
    from barnabas.client.admin.admin import Admin as AdminFlows
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.blocking.net import run
    from barnabas.client.groups.seek import committed_offsets, planned_steps

    with open_cluster(ctx) as cluster:
        flows = AdminFlows(cluster=cluster)
        may_be_new = bool(topics) or target.places is not None
        committed = run(committed_offsets(flows, group, may_be_new=may_be_new))
        if topics:
            partitions = _chosen(Admin(cluster=cluster), topics)
        else:
            partitions = list(committed if target.places is None else target.places)
        if not partitions:
            raise InvalidRequest(
                Code.RESOURCE_NOT_FOUND, f"group {group!r} has committed nothing: name a -t TOPIC"
            )
        steps = run(planned_steps(flows, committed, partitions, target))
        _preview(steps, output)
        if not dry_run:
            _carry_out(flows, group, steps, yes, f"move group {group}")


@click.command()
@group_argument
@yes_option
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@output_option
@cluster_options
@click.pass_context
def undo(ctx: click.Context, group: str, yes: bool, dry_run: bool, output: str) -> None:
    """Restore the offsets from before the last seek; a second undo repeats the seek."""
    require_answer(yes or dry_run)
    from barnabas.client.admin.admin import Admin as AdminFlows
    from barnabas.client.blocking.net import run
    from barnabas.client.groups.seek import undo_steps

    with open_cluster(ctx) as cluster:
        flows = AdminFlows(cluster=cluster)
        steps = run(undo_steps(flows, group))
        _preview(steps, output)
        if not dry_run:
            _carry_out(flows, group, steps, yes, f"move group {group} back")


def _chosen(admin: "Admin", words: Iterable[str]) -> list[TopicPartition]:
    from barnabas.cli.topic import find_topic, select_partitions

    found: dict[TopicPartition, None] = {}
    for word in words:
        name, colon, numbers = word.partition(":")
        try:
            only = tuple(int(number) for number in numbers.split(",")) if colon else ()
        except ValueError:
            raise click.UsageError(f"-t {word!r}: expected TOPIC or TOPIC:0,1,2") from None
        found.update(dict.fromkeys(select_partitions(find_topic(admin, name), only)))
    return list(found)


def _preview(steps: "list[Step]", output: str) -> None:
    from barnabas.client.groups.seek import COLUMNS, step_row

    rows: list[Row] = [step_row(step) for step in steps]
    if chosen_output(output) == "table":
        for row in rows:
            row["from"] = "-" if row["from"] is None else row["from"]
            row["to"] = "-" if row["to"] is None else row["to"]
            row["change"] = None if row["change"] is None else f"{row['change']:+d}"
    render(rows, COLUMNS, output)


def _carry_out(flows: "AdminFlows", group: str, steps: "list[Step]", yes: bool, what: str) -> None:
    from barnabas.client.blocking.net import run
    from barnabas.client.groups.seek import move

    many = sum(step.moves for step in steps)
    if not many:
        click.echo("nothing to change", err=True)
        return
    confirm(f"{what} in {many} partition{'' if many == 1 else 's'}", yes)
    run(move(flows, group, steps))
    click.echo(f"group {group} is moved; `barnabas group undo {group}` takes it back", err=True)
