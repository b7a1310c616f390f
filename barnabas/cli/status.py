"""`barnabas status`: the brokers, the controller, and problems."""

import click

from barnabas.cli.cluster import look
from barnabas.cli.options import cluster_options
from barnabas.cli.render import chosen_output, output_option, render, write_document
from barnabas.client import cluster_rows
from barnabas.client.tables import table

_SHOWN_MAX = 20


@click.command()
@output_option
@cluster_options
@click.pass_context
def command(ctx: click.Context, output: str) -> None:
    """Show the brokers and their health, the controller, partitions that are offline or
    under-replicated, and clients that are over their quota."""
    from barnabas.system.machine import boot_id

    view, details = look(ctx)
    output = chosen_output(output)
    brokers = cluster_rows.broker_rows(view, details, boot_id())
    problems = cluster_rows.problem_rows(view)
    topics, partitions = cluster_rows.counts(view)
    throttled = cluster_rows.throttled_rows(details)
    waiting = cluster_rows.waiting_rows(details)
    reasons = cluster_rows.reasons(details)
    for row in problems:
        if why := reasons.get((row["topic"], row["partition"])):
            row["reason"] = why
    if output == "csv":
        render(brokers, cluster_rows.BROKER_COLUMNS + cluster_rows.HEALTH_COLUMNS, output)
        return
    if output != "table":
        offline = [row for row in problems if row["problem"] == "offline"]
        document = {
            "cluster": view.cluster_id,
            "controller": view.controller_id,
            "controller_epoch": cluster_rows.controller_epoch(details),
            "brokers": brokers,
            "topics": topics,
            "partitions": partitions,
            "offline": offline,
            "under_replicated": [row for row in problems if row not in offline],
            "throttled": throttled,
            "waiting_for_lake": waiting,
        }
        write_document(document, output)
        return
    click.echo(f"cluster {view.cluster_id}")
    click.echo(table(brokers, cluster_rows.BROKER_COLUMNS), nl=False)
    click.echo(table(brokers, ("broker", *cluster_rows.HEALTH_COLUMNS)), nl=False)
    click.echo(cluster_rows.health(problems, partitions))
    if problems:
        click.echo(table(problems[:_SHOWN_MAX], cluster_rows.PROBLEM_COLUMNS), nl=False)
    for row in problems[:_SHOWN_MAX]:
        if "reason" in row:
            click.echo(f"{row['topic']}:{row['partition']} is offline: {row['reason']}")
    if len(problems) > _SHOWN_MAX:
        click.echo(f"and {len(problems) - _SHOWN_MAX} more: --output json shows all", err=True)
    for row in waiting[:_SHOWN_MAX]:
        click.echo(
            f"{row['partition']} of broker {row['broker']}: {row['waiting_bytes']} bytes past their"
            f" retention wait for the lake's table; the log has {row['log_bytes']} bytes, and from"
            f" lake.retention.wait.bytes={row['limit_bytes']} on they are deleted"
        )
    for row in throttled[:_SHOWN_MAX]:
        click.echo(
            f"{row['entity']} is over {row['quota']}={row['limit']:.15g} of {row['source']}: in the"
            f" last minute delayed {row['times']} times, {row['wait_ms'] / 1000:.1f} s in"
            f" total, by broker {row['broker']}"
        )
