"""`barnabas group seek` and `undo`: move the offsets of a group that has no members.

Always: what was there before is kept before anything moves, as the committed offsets of a group
named GROUP.before-seek: in the cluster itself, so that it outlives this machine, and works with
any broker. `undo` swaps the two: undone twice is done again. What is kept for the seek before is
given up only once the group has moved: until then the new one lies beside it, and a seek that was
cut off in between is settled by the next.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli.asking import confirm, require_answer, yes_option
from barnabas.cli.groups.arguments import group_argument
from barnabas.cli.groups.targets import Target, parse_target
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.render import Row, chosen_output, output_option, render
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.consumer.offset_lookup import Committed

UNDO_SUFFIX = ".before-seek"
BEGUN_SUFFIX = ".before-seek-begun"
KEPT_SUFFIXES = (UNDO_SUFFIX, BEGUN_SUFFIX)
NOTHING_COMMITTED = "barnabas: nothing was committed here"
COLUMNS = ("topic", "partition", "from", "to", "change", "note")


class Step(NamedTuple):
    """One partition: where the group stands, and where it is to go; None is nowhere."""

    at: TopicPartition
    before: "Committed | None"
    after: "Committed | None"
    note: str = ""

    @property
    def moves(self) -> bool:
        before = None if self.before is None else self.before.offset
        return before != (None if self.after is None else self.after.offset)


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
    with open_admin(ctx) as admin:
        committed = _committed(admin, group, may_be_new=bool(topics) or target.places is not None)
        if topics:
            partitions = _chosen(admin, topics)
        else:
            partitions = list(committed if target.places is None else target.places)
        if not partitions:
            raise InvalidRequest(
                Code.RESOURCE_NOT_FOUND, f"group {group!r} has committed nothing: name a -t TOPIC"
            )
        steps = _steps(admin, committed, partitions, target)
        _preview(steps, output)
        if not dry_run:
            _carry_out(admin, group, steps, yes, f"move group {group}")


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
    with open_admin(ctx) as admin:
        kept = _cut_off(admin, group) or admin.group_offsets(group + UNDO_SUFFIX)
        if not kept:
            raise InvalidRequest(
                Code.RESOURCE_NOT_FOUND, f"group {group!r} has no seek that could be undone"
            )
        committed = _committed(admin, group, may_be_new=True)
        steps = [
            Step(at, committed.get(at), None if place.metadata == NOTHING_COMMITTED else place)
            for at, place in sorted(kept.items())
        ]
        _preview(steps, output)
        if not dry_run:
            _carry_out(admin, group, steps, yes, f"move group {group} back")


def _committed(
    admin: "Admin", group: str, *, may_be_new: bool
) -> "dict[TopicPartition, Committed]":
    """Refuses a group whose members would overwrite what is moved, as brokers do too."""
    try:
        described = admin.describe_group(group)
    except InvalidRequest as problem:
        if problem.code is Code.GROUP_ID_NOT_FOUND and may_be_new:
            return {}
        raise
    if described.members or described.state not in ("Empty", "Dead"):
        many = f"{len(described.members)} member{'' if len(described.members) == 1 else 's'}"
        raise InvalidRequest(
            Code.NON_EMPTY_GROUP,
            f"group {group!r} is {described.state} with {many}: stop them first, they would go on"
            " from where they are",
        )
    return admin.group_offsets(group)


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


def _steps(
    admin: "Admin",
    committed: "Mapping[TopicPartition, Committed]",
    partitions: list[TopicPartition],
    target: Target,
) -> list[Step]:
    from barnabas.client.admin.admin import EARLIEST, LATEST
    from barnabas.client.consumer.offset_lookup import Committed

    partitions = sorted(partitions)
    starts = admin.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = admin.offsets(dict.fromkeys(partitions, LATEST))
    at_time = {}
    if target.time_ms is not None:
        at_time = admin.offsets(dict.fromkeys(partitions, target.time_ms))
    steps = []
    for at in partitions:
        start, end = starts[at].offset, ends[at].offset
        note = ""
        if target.name == "earliest":
            place = start
        elif target.name == "latest":
            place = end
        elif target.time_ms is not None:
            place = at_time[at].offset
            if place < 0:
                place, note = end, "no record is that late"
        elif target.places is not None:
            if at not in target.places:
                continue
            place = target.places[at]
        else:
            assert target.offset is not None
            place = target.offset
        if place < start:
            note = f"{place} is gone: the first record is {start}"
        elif place > end:
            note = f"{place} is not there yet: the end is {end}"
        after = Committed(min(max(place, start), end))
        steps.append(Step(at, committed.get(at), after, note))
    return steps


def _preview(steps: list[Step], output: str) -> None:
    rows: list[Row] = []
    for step in steps:
        before = None if step.before is None else step.before.offset
        after = None if step.after is None else step.after.offset
        change = None if before is None or after is None else after - before
        shown = chosen_output(output) != "table"
        rows.append(
            {
                "topic": step.at.topic,
                "partition": step.at.partition,
                "from": before if shown or before is not None else "-",
                "to": after if shown or after is not None else "-",
                "change": change if shown or change is None else f"{change:+d}",
                "note": step.note,
            }
        )
    render(rows, COLUMNS, output)


def _carry_out(admin: "Admin", group: str, steps: list[Step], yes: bool, what: str) -> None:
    from barnabas.client.consumer.offset_lookup import Committed

    many = sum(step.moves for step in steps)
    if not many:
        click.echo("nothing to change", err=True)
        return
    confirm(f"{what} in {many} partition{'' if many == 1 else 's'}", yes)
    # While a person thinks, members may come, commit and go.
    committed = _committed(admin, group, may_be_new=True)
    moving = [
        step for step in (s._replace(before=committed.get(s.at)) for s in steps) if step.moves
    ]
    _settle(admin, group)
    admin.alter_group_offsets(
        group + BEGUN_SUFFIX,
        {step.at: step.before or Committed(0, metadata=NOTHING_COMMITTED) for step in moving},
    )
    try:
        if placed := {step.at: step.after for step in moving if step.after is not None}:
            admin.alter_group_offsets(group, placed)
        if nowhere := [step.at for step in moving if step.after is None]:
            admin.delete_group_offsets(group, nowhere)
    except InvalidRequest:
        with suppress(KafkaError):  # the next one settles it, then
            _settle(admin, group)
        raise
    _settle(admin, group)
    click.echo(f"group {group} is moved; `barnabas group undo {group}` takes it back", err=True)


def _settle(admin: "Admin", group: str) -> None:
    """A seek that was begun: what it kept becomes what `undo` goes back to, if the group moved."""
    if kept := _cut_off(admin, group):
        delete_if_there(admin, group + UNDO_SUFFIX)
        admin.alter_group_offsets(group + UNDO_SUFFIX, kept)
    delete_if_there(admin, group + BEGUN_SUFFIX)


def _cut_off(admin: "Admin", group: str) -> "dict[TopicPartition, Committed]":
    """What a seek kept that has moved the group, and may not have come to its end."""
    begun = admin.group_offsets(group + BEGUN_SUFFIX)
    if not begun:
        return {}
    committed = admin.group_offsets(group)
    was = {
        at: None if place.metadata == NOTHING_COMMITTED else place for at, place in begun.items()
    }
    moved = any(Step(at, committed.get(at), place).moves for at, place in was.items())
    return begun if moved else {}


def delete_if_there(admin: "Admin", group: str) -> None:
    try:
        admin.delete_group(group)
    except KafkaError as problem:
        if problem.code is not Code.GROUP_ID_NOT_FOUND:
            raise
