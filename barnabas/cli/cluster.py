"""`barnabas cluster`: describe, brokers, clients, explain, elect, reassign, events."""

import time
from typing import TYPE_CHECKING

import click

from barnabas.cli import exits
from barnabas.cli.cluster_moves import reassign
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.confirmation import confirm, require_answer, yes_option
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.partitions import named_partitions
from barnabas.cli.render import chosen_output, output_option, render, write_document
from barnabas.client import cluster_rows
from barnabas.model.words import printable

if TYPE_CHECKING:
    from barnabas.client.admin.cluster import BrokerDetails
    from barnabas.client.metadata_snapshot import MetadataSnapshot

_EVENT_COLUMNS = ("time", "what", "where", "change", "cause")
_LOOK_S = 0.5


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """Look at a cluster of brokers, move replicas, elect leaders."""


command.add_command(reassign)


@command.command()
@output_option
@cluster_options
@click.pass_context
def info(ctx: click.Context, output: str) -> None:
    """Show the cluster's id, its controller, and how many brokers, topics and partitions it has."""
    view, details = look(ctx)
    topics, partitions = cluster_rows.counts(view)
    problems = cluster_rows.problem_rows(view)
    versions = sorted({own.version for own in details.values()})
    facts = {
        "cluster": view.cluster_id,
        "controller": view.controller_id,
        "controller_epoch": cluster_rows.controller_epoch(details),
        "brokers": len(view.brokers),
        "topics": topics,
        "partitions": partitions,
        "replicas": sum(len(p.replicas) for t in view.topics.values() for p in t.partitions),
        "offline": sum(row["problem"] == "offline" for row in problems),
        "under_replicated": sum(row["problem"] != "offline" for row in problems),
        "versions": versions,
    }
    output = chosen_output(output)
    if output in ("json", "jsonl"):
        write_document(facts, output)
        return
    rows = [{"name": name.replace("_", " "), "value": value} for name, value in facts.items()]
    render(rows, ["name", "value"], output)


@command.command()
@output_option
@cluster_options
@click.pass_context
def brokers(ctx: click.Context, output: str) -> None:
    """List the brokers, with what each leads and holds."""
    from barnabas.system.machine import boot_id

    view, details = look(ctx)
    rows = cluster_rows.broker_rows(view, details, boot_id())
    render(rows, cluster_rows.BROKER_COLUMNS, output)


@command.command()
@output_option
@cluster_options
@click.pass_context
def clients(ctx: click.Context, output: str) -> None:
    """List the connected clients: software, groups, topics that they read, requests and errors.

    The counts are those of the connections that are open now; --output json has bytes, too.

    With Apache Kafka: the members of groups, since its brokers do not list their connections.
    """
    from barnabas.client.client_rows import COLUMNS, client_rows

    with open_admin(ctx) as admin:
        connected = admin.connections()
        members = admin.group_members()
    rows = client_rows(None if connected is None else connected.clients, members)
    render(rows, COLUMNS, output)
    if connected is not None and connected.total > len(connected.clients):
        click.echo(f"{connected.total} connections; each broker listed its oldest 1,000", err=True)


@command.command()
@output_option
@cluster_options
@click.pass_context
def explain(ctx: click.Context, output: str) -> int:
    """Say why partitions are offline, and what to do."""
    view, details = look(ctx)
    reasons = cluster_rows.reasons(details)
    rows = [
        {"topic": row["topic"], "partition": row["partition"], "reason": why}
        for row in cluster_rows.problem_rows(view)
        if (why := reasons.get((row["topic"], row["partition"])))
    ]
    if chosen_output(output) != "table":
        render(rows, ["topic", "partition", "reason"], output)
    else:
        for row in rows:
            click.echo(f"{row['topic']}:{row['partition']} is offline: {row['reason']}")
        if not rows:
            click.echo("every partition has a leader", err=True)
    return exits.FAILURE if rows else exits.OK


@command.command()
@click.argument("partitions", metavar="[TOPIC[:PARTITION]...]", nargs=-1)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect a replica that is not in sync if no in-sync replica is "
    "available: records may be lost.",
)
@yes_option
@output_option
@cluster_options
@click.pass_context
def elect(
    ctx: click.Context, partitions: tuple[str, ...], unclean: bool, yes: bool, output: str
) -> int:
    """Elect the preferred leaders of these partitions, or of all."""
    if unclean and not partitions:
        raise click.UsageError("--unclean: name the partitions")
    require_answer(yes or not unclean)
    with open_admin(ctx) as admin:
        wanted = [at for at, _ in named_partitions(admin, partitions)] if partitions else None
        confirm("records that only others have are lost; go on", yes or not unclean)
        done = admin.elect_leaders(wanted, unclean=unclean)
        view = admin.topics()
    rows = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "leader": view.partition(at).leader if problem is None else None,
            "problem": None if problem is None else problem.detail,
        }
        for at, problem in sorted(done.items())
    ]
    if rows:
        render(rows, ["topic", "partition", "leader", "problem"], output)
    else:
        click.echo("every leader is the preferred one already", err=True)
    return exits.FAILURE if any(done.values()) else exits.OK


@command.command()
@click.option(
    "-n",
    "--last",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="The number of events to show.",
)
@click.option("-t", "--topic", help="Show only events of this topic.")
@click.option("-f", "--follow", is_flag=True, help="Keep running and show new events.")
@output_option
@cluster_options
@click.pass_context
def events(ctx: click.Context, last: int, topic: str | None, follow: bool, output: str) -> None:
    """Show what the controller did and why: elections, in-sync sets, brokers that come and go."""
    output = chosen_output(output)
    if follow and output in ("json", "csv"):
        raise click.UsageError("--follow requires a table or --output jsonl")
    after = -1
    with open_admin(ctx) as admin:
        while True:
            found = admin.events(after=after, count=10_000 if topic else last)
            if found is None:
                raise click.ClickException("the controller is not Barnabas: it keeps no history")
            if found and found[-1].number < after:
                after = -1  # another controller, whose event numbers start again
                continue
            after = max([after, *(event.number for event in found)])
            rows = [cluster_rows.event_row(e) for e in found if topic is None or e.topic == topic][
                -last:
            ]
            if follow and output == "table":
                for row in rows:
                    click.echo("  ".join(printable(str(row[c])) for c in _EVENT_COLUMNS if row[c]))
            elif rows or not follow:
                render(rows, _EVENT_COLUMNS, output)
            if not follow:
                return
            time.sleep(_LOOK_S)


def look(ctx: click.Context) -> tuple["MetadataSnapshot", dict[int, "BrokerDetails"]]:
    """All topics, and the details that each broker reports."""
    with open_admin(ctx) as admin:
        return admin.topics(), admin.describe_brokers()
